package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/stream"
)

// Application is what a member tells its group that it is: the kind of the component, and the topic that its
// snapshots or progress records go to. Nothing else belongs in it, since members of two versions of one program
// share a group while one replaces the other. The zero value tells nothing.
type Application struct{ Kind, Progress string }

// String describes it, as "flow with the snapshot topic t".
func (a Application) String() string {
	topic := "progress"
	if a.Kind == KindFlow {
		topic = "snapshot"
	}
	return fmt.Sprintf("%s with the %s topic %s", a.Kind, topic, a.Progress)
}

// Beside is the error of a member that meets one of another application in its group; nil if it is the same, or
// if either tells nothing.
func (a Application) Beside(other Application) error {
	if a == (Application{}) || other == (Application{}) || a == other {
		return nil
	}
	sentinel := stream.ErrOtherApplication
	if a.Kind != other.Kind {
		sentinel = stream.ErrOtherComponent
	}
	return fmt.Errorf("the group has a member of another application, a %s, and this is a %s: %w", other, a, sentinel)
}

// applicationMark ends the user data of a member of a classic group that tells what it is. It stands behind
// whatever the assignor has there: Java's and this client's readers of that leave alone what follows.
const applicationMark = "\x00holdfast-application-1"

// Told returns the metadata of a member of a classic group with what it tells added. Metadata that is not that of
// a consumer comes back as it is.
func (a Application) Told(metadata []byte) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	said := a.Kind + "/" + a.Progress
	if a == (Application{}) || len(said) > math.MaxUint16 || m.ReadFrom(metadata) != nil {
		return metadata
	}
	data := append(bytes.Clone(m.UserData), said...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(said)))
	m.UserData = append(data, applicationMark...)
	return m.AppendTo(nil)
}

// toldBy reads what Told has added; zero: nothing.
func toldBy(metadata []byte) Application {
	m := kmsg.NewConsumerMemberMetadata()
	if m.ReadFrom(metadata) != nil {
		return Application{}
	}
	data, ok := bytes.CutSuffix(m.UserData, []byte(applicationMark))
	if !ok || len(data) < 2 {
		return Application{}
	}
	said := data[:len(data)-2]
	n := int(binary.BigEndian.Uint16(data[len(said):]))
	if n > len(said) {
		return Application{}
	}
	kind, progress, ok := strings.Cut(string(said[len(said)-n:]), "/")
	if !ok || kind == "" || progress == "" {
		return Application{}
	}
	return Application{Kind: kind, Progress: progress}
}

// clientMark stands in a client id before what its member is, for which a group of KIP-848 has no other place.
const clientMark = "~holdfast~"

// ClientID returns a client id with what the member tells behind it.
func (a Application) ClientID(id string) string {
	if a == (Application{}) {
		return id
	}
	return id + clientMark + a.Kind + "~" + a.Progress
}

// toldByID reads what ClientID has added; zero: nothing. A topic's name has no "~".
func toldByID(id string) Application {
	at := strings.LastIndex(id, clientMark)
	if at < 0 {
		return Application{}
	}
	kind, progress, ok := strings.Cut(id[at+len(clientMark):], "~")
	if !ok || kind == "" || progress == "" {
		return Application{}
	}
	return Application{Kind: kind, Progress: progress}
}

// GroupMember is one member of a group, with what it tells.
type GroupMember struct {
	ID          string
	Application Application // zero: it tells nothing
}

// GroupMembers are the members of a group at one moment.
type GroupMembers struct {
	Members []GroupMember
	// Settled: no rebalance of a classic group is under way, in which it does not say what its members tell.
	Settled bool
	// Hidden: the members may not be seen, since one reads a topic that the principal may not describe.
	Hidden bool
}

// LookupMembers asks the group's coordinator for the members. A group that does not exist has none.
func LookupMembers(ctx context.Context, cl *kgo.Client, group string) (GroupMembers, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return GroupMembers{}, fmt.Errorf("describe group: %w", err)
	}
	if len(resp.Groups) != 1 {
		return GroupMembers{}, fmt.Errorf("describe group: the answer has %d groups, not 1", len(resp.Groups))
	}
	g := &resp.Groups[0]
	err = kerr.ErrorForCode(g.ErrorCode)
	switch {
	case errors.Is(err, kerr.GroupIDNotFound), err == nil && len(g.Members) == 0: // also what is said of a group of KIP-848
		return lookupConsumers(ctx, cl, group)
	case err != nil:
		return GroupMembers{}, fmt.Errorf("describe group: %w", err)
	}
	found := GroupMembers{Settled: g.State == "Stable"}
	for _, m := range g.Members {
		found.Members = append(found.Members, GroupMember{ID: m.MemberID, Application: toldBy(m.ProtocolMetadata)})
	}
	return found, nil
}

// lookupConsumers asks for the members of a group of KIP-848.
func lookupConsumers(ctx context.Context, cl *kgo.Client, group string) (GroupMembers, error) {
	found := GroupMembers{Settled: true}
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, cl)
	if errors.Is(err, kerr.UnsupportedVersion) || err != nil && (strings.Contains(err.Error(), "broker is too old") || strings.Contains(err.Error(), "request key is unknown")) {
		return found, nil // there are no such groups; the client has no error for it that it exports
	}
	if err != nil {
		return GroupMembers{}, fmt.Errorf("describe group: %w", err)
	}
	for i := range resp.Groups {
		g := &resp.Groups[i]
		switch err := kerr.ErrorForCode(g.ErrorCode); {
		case errors.Is(err, kerr.GroupIDNotFound), errors.Is(err, kerr.UnsupportedVersion):
			continue
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			found.Hidden = true
			continue
		case err != nil:
			return GroupMembers{}, fmt.Errorf("describe group: %w", err)
		}
		for _, m := range g.Members {
			found.Members = append(found.Members, GroupMember{ID: m.MemberID, Application: toldByID(m.ClientID)})
		}
	}
	return found, nil
}
