package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/stream"
)

var orders = Application{Kind: "flow", Progress: "orders-snapshots"}

// What a member tells stands behind what its assignor has there, and changes nothing for any leader.
func TestToldBesideEveryAssignor(t *testing.T) {
	t.Parallel()
	for _, b := range []kgo.GroupBalancer{kgo.CooperativeStickyBalancer(), kgo.StickyBalancer(), kgo.RangeBalancer(), kgo.RoundRobinBalancer()} {
		t.Run(b.ProtocolName(), func(t *testing.T) {
			t.Parallel()
			owned := map[string]map[string][]int32{"a": {"in": {2, 3}}, "b": {"in": {0, 1}}}
			plan := func(told Application) []kmsg.SyncGroupRequestGroupAssignment {
				var members []kmsg.JoinGroupResponseMember
				for _, id := range []string{"a", "b"} {
					m := kmsg.NewJoinGroupResponseMember()
					m.MemberID, m.ProtocolMetadata = id, told.Told(b.JoinGroupMetadata([]string{"in"}, owned[id], 7))
					if got := toldBy(m.ProtocolMetadata); got != told {
						t.Errorf("%+v was told, and %+v is read", told, got)
					}
					members = append(members, m)
				}
				balancer, _, err := b.MemberBalancer(members)
				if err != nil {
					t.Fatal(err)
				}
				into, err := balancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(map[string]int32{"in": 4})
				if err != nil {
					t.Fatal(err)
				}
				return into.IntoSyncAssignment()
			}
			if silent, told := plan(Application{}), plan(orders); !reflect.DeepEqual(silent, told) {
				t.Errorf("the leader assigns %v, and without what is told %v", told, silent)
			}
		})
	}
}

// Whatever else stands in a member's metadata, it tells nothing.
func TestToldByOthers(t *testing.T) {
	t.Parallel()
	with := func(data string) []byte {
		m := kmsg.NewConsumerMemberMetadata()
		m.UserData = []byte(data)
		return m.AppendTo(nil)
	}
	for name, metadata := range map[string][]byte{
		"nothing": nil, "no consumer": []byte("connect"), "no user data": with(""), "the mark alone": with(applicationMark),
		"a length beyond": with("flow/t\xff\xff" + applicationMark), "no kind": with("/t\x00\x02" + applicationMark), "no topic": with("flow/\x00\x05" + applicationMark),
	} {
		if got := toldBy(metadata); got != (Application{}) {
			t.Errorf("%s: %+v", name, got)
		}
		if got := orders.Told(metadata); name == "no consumer" && !bytes.Equal(got, metadata) {
			t.Errorf("%s was changed to %q", name, got)
		}
	}
	for _, id := range []string{"", "holdfast", "a~b", "x" + clientMark, "x" + clientMark + "flow", "x" + clientMark + "~t"} {
		if got := toldByID(id); got != (Application{}) {
			t.Errorf("client id %q: %+v", id, got)
		}
		if got := toldByID(orders.ClientID(id)); got != orders {
			t.Errorf("client id %q: %+v was told, and %+v is read", id, orders, got)
		}
	}
	if id := (Application{}).ClientID("mine"); id != "mine" {
		t.Errorf("a member that tells nothing has the client id %q", id)
	}
}

// Two versions of one program, and a client that tells nothing, are no other application.
func TestBeside(t *testing.T) {
	t.Parallel()
	for other, want := range map[Application]error{
		{}: nil, orders: nil, {"flow", "stock-snapshots"}: stream.ErrOtherApplication, {"pipe", "orders-snapshots"}: stream.ErrOtherComponent,
	} {
		if err := orders.Beside(other); !errors.Is(err, want) {
			t.Errorf("beside %+v: %v, want %v", other, err, want)
		}
	}
	if err := (Application{}).Beside(orders); err != nil {
		t.Errorf("who tells nothing is refused: %v", err)
	}
}
