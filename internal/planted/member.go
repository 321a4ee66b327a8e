package planted

var memberBugs = []Bug{}
