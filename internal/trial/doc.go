// Package trial puts one application under attack: a flow or a pipe of several members on a cluster of
// real brokers, each member a process of its own behind proxies of its own. A test starts members, and
// kills, pauses and ends them, while records come; it waits for what they tell; and at the end the
// checker of holdfasttest judges the whole run.
//
//	func TestMain(m *testing.M) { kafkatest.Main(m, trial.Child()) }
//
//	f := trial.New(t, kafkatest.Start(t), trial.App{Kind: trial.Flow}, 4)
//	one := f.Member("one")
//	one.Start()
//	one.Owns()
//	f.Send(100)
//	one.Kill()
//	one.Start()
//	f.CaughtUp()
//	f.Verify()
package trial
