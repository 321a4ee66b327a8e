package fence

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Protocol is how the members of a consumer group share its partitions. All members of a group use the
// same one, but for a change between the classic protocols and ServerSide, which the brokers carry out
// member by member.
type Protocol int

const (
	// Cooperative is the classic protocol with the cooperative-sticky assignor: partitions that stay with
	// a member are worked on during a rebalance. It is the default. Java: group.protocol=classic,
	// partition.assignment.strategy=CooperativeStickyAssignor.
	Cooperative Protocol = iota
	// Eager is the classic protocol in which every member gives up all of its partitions in each
	// rebalance. It offers the assignors sticky, range and roundrobin, and the group takes one that all
	// members know: so it works beside Java members with StickyAssignor, with RoundRobinAssignor, and with
	// the default of Java, RangeAssignor and CooperativeStickyAssignor together.
	Eager
	// ServerSide is the protocol of KIP-848, in Java group.protocol=consumer: the broker assigns the
	// partitions. Session timeout and heartbeat interval are those of the group's configuration at the
	// brokers. It takes Kafka 4.3 or newer.
	ServerSide
)

// String returns the name of the constant.
func (p Protocol) String() string {
	switch p {
	case Cooperative:
		return "Cooperative"
	case Eager:
		return "Eager"
	case ServerSide:
		return "ServerSide"
	}
	return "Protocol(" + strconv.Itoa(int(p)) + ")"
}

// Assignors returns the names of the assignors that a member of a classic protocol offers to its group, which
// takes one that all members offer. nil for ServerSide, where the broker assigns.
func (p Protocol) Assignors() (names []string) {
	switch p {
	case Cooperative:
		return []string{kgo.CooperativeStickyBalancer().ProtocolName()}
	case Eager:
		for _, b := range eager() {
			names = append(names, b.ProtocolName())
		}
	}
	return names
}

func eager() []kgo.GroupBalancer {
	return []kgo.GroupBalancer{kgo.StickyBalancer(), kgo.RangeBalancer(), kgo.RoundRobinBalancer()}
}

// options makes a client speak the protocol. given are the caller's own options, told is what the member tells
// the group that it is.
func (p Protocol) options(given []kgo.Opt, told Application) []kgo.Opt {
	switch p {
	case Eager:
		return append(given, kgo.Balancers(told.by(eager()...)...))
	case ServerSide:
		// The client's name for the server's assignor "uniform" is its sticky one.
		return append(given, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	}
	// A caller of this package may bring an assignor of its own.
	return append([]kgo.Opt{kgo.Balancers(told.by(kgo.CooperativeStickyBalancer())...)}, given...)
}
