package planted

var engineBugs = []Bug{}
