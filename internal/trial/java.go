package trial

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/internal/kafkatest/copier"
)

// EventLeads tells that the Java member leads the group, and has assigned to Offset members.
const EventLeads = "leads"

// Java adds a member of Kafka's own client to the group of a Copy, with the other members' timings, and
// returns when it owns a partition. What it tells becomes events of a member with this name; commits
// have no partition.
func (f *Field) Java(name string) *Member {
	f.TB.Helper()
	if f.App.Kind != Copy {
		f.TB.Fatalf("a Java member copies, and a %s does not", f.App.Kind)
	}
	m := &Member{Name: name, App: f.App, f: f, java: true}
	f.members = append(f.members, m)
	m.Start()
	f.Await("a partition for "+name, 0, 1, m.Is(Kinds(holdfasttest.EventAssigned)))
	return m
}

func (m *Member) startJava(l *life) {
	a := m.App
	l.proc = copier.Start(m.f.TB, m.f.Cluster, copier.Config{
		Group: a.Group, Input: a.Input, Output: a.Output, TransactionalID: a.Group + "-" + m.Name, Records: 20,
		SessionTimeout: a.Session, HeartbeatInterval: a.Heartbeat, RebalanceTimeout: a.Rebalance, TransactionTimeout: a.TransactionTimeout,
	})
}

// javaEvents turns a line of the Java member into events.
func javaEvents(line string) ([]Event, error) {
	said, err := copier.Parse(line)
	if err != nil {
		return nil, err
	}
	each := func(kind string) (out []Event) {
		for _, p := range said.Partitions {
			out = append(out, Event{At: time.Now(), Kind: kind, Partition: p})
		}
		return out
	}
	one := func(e Event) []Event { e.At, e.Partition = time.Now(), -1; return []Event{e} }
	switch said.Name {
	case copier.Assigned:
		return each(holdfasttest.EventAssigned), nil
	case copier.Revoked:
		return each(holdfasttest.EventRevoked), nil
	case copier.Lost:
		return each(holdfasttest.EventLost), nil
	case copier.Leads:
		return one(Event{Kind: EventLeads, Offset: int64(said.Members)}), nil
	case copier.Committed:
		return one(Event{Kind: holdfasttest.EventCommitted}), nil
	case copier.Failed:
		return one(Event{Kind: holdfasttest.EventRefused, Cause: "java", Detail: said.Error}), nil
	}
	return one(Event{Kind: "java", Cause: fmt.Sprintf("%+v", said)}), nil
}
