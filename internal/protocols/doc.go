// Package protocols has the tests of the group protocols on real brokers: each of them under attack, with
// dynamic and with static members, and the change from one to another.
package protocols
