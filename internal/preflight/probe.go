package preflight

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// The fence probe. All fenced guarantees rest on one refusal: a broker takes no offset in a transaction
// of a generation that the group does not have. The probe makes a broker refuse one, in a group and
// under a transactional id that exist for it alone, so that nothing live is touched:
//
//  1. It joins the throwaway group and is its only member.
//  2. It initialises the throwaway id and sends an offset under the generation after its own. A broker
//     that fences refuses it.
//  3. It sends the same under its own generation. That must be taken: a broker that refuses everything,
//     or a principal that may not do it, would else pass for one that fences.
//  4. It aborts, leaves and deletes the group. No offset is ever committed.
const (
	// ProbeID is the id of the probe's finding.
	ProbeID = "fence-probe"
	// probePatience bounds the probe, most of which is the broker's group.initial.rebalance.delay.ms
	// (3 s unless changed). What takes longer is not known, and said.
	probePatience = 8 * time.Second
	// cleaning bounds the end of it.
	cleaning = 3 * time.Second
	// probeTransaction is the longest that the throwaway transaction may stay open if this process ends
	// in the middle.
	probeTransaction = 10 * time.Second
)

// trial is one probe.
type trial struct {
	client     *kgo.Client
	member     wire.Lone
	id         string
	producerID int64
	epoch      int16
	began      bool
	input      wire.Facts
	addOffsets bool
}

// probe makes sure that the brokers refuse a stale generation. Where it cannot be found out, the finding
// has a warning, and the start is not refused.
func (i *inspection) probe(ctx context.Context) error {
	if !i.Transactional || !rule.On(ctx, rule.FenceProbe) {
		return nil
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, i.probing)
	defer cancel()
	t := i.newTrial()
	code, err := i.try(bounded, t)
	left := t.clean(ctx)
	if errors.Is(err, errCrossed) && bounded.Err() == nil {
		// A join that the client has sent twice raises the generation once more: then it is the own one that is
		// stale. It does not do so twice; a broker that takes the wrong one does.
		t = i.newTrial()
		if code, err = i.try(bounded, t); errors.Is(err, errCrossed) {
			err = fmt.Errorf("%w: in two groups one after the other, %w", stream.ErrBrokerDoesNotFence, err)
		}
		left = errors.Join(left, t.clean(ctx))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	took := time.Since(began).Round(time.Millisecond)
	switch {
	case errors.Is(err, stream.ErrBrokerDoesNotFence):
		e := stream.NewError("probe the fence", err).
			Hinted("use brokers that refuse it, as Apache Kafka from 2.5 on, or remove what rewrites their answers; the guarantee Unfenced starts and claims less")
		e.Group, e.TransactionalID = t.member.Group, t.id
		err = i.found.note(ProbeID, "fence", "", e)
	case err != nil:
		i.found.add(claim.Finding{
			ID: ProbeID, What: "fence", Fact: "was not probed",
			Warning: fmt.Sprintf("whether a stale owner is refused here is taken on trust (%v)", err), Fix: i.probeFix(err, t),
		})
		err = nil
	default:
		i.found.add(claim.Finding{
			ID: ProbeID, What: "fence",
			Fact: fmt.Sprintf("an offset of generation %d was refused (%s), the same of generation %d was taken, and aborted; %v", t.member.Generation+1, code, t.member.Generation, took),
		})
	}
	if left != nil {
		i.found.advise(fmt.Sprintf("the empty group %s is left, without offsets, until the broker removes it (%v)", t.member.Group, left),
			wire.GrantGroup(i.client, i.Group+"-probe- --resource-pattern-type prefixed", "Read", "Delete"))
	}
	return err
}

// errCrossed: the broker took the generation that is not the member's and refused the one that is.
var errCrossed = errors.New("it took a generation that the group does not have")

// newTrial is a trial with a group and a transactional id of its own.
func (i *inspection) newTrial() *trial {
	suffix := "-probe-" + strings.ToLower(rand.Text()[:10])
	return &trial{
		id: fence.TransactionalID(i.Group, i.Progress.Topic+suffix, 0), member: wire.Lone{Group: i.Group + suffix},
		input: i.found.Inputs[0], addOffsets: i.found.Features.AddOffsets(),
	}
}

// try does it, and returns the code of the refusal.
func (i *inspection) try(ctx context.Context, t *trial) (code string, err error) {
	if t.client, err = i.probeClient(); err != nil {
		return "", err
	}
	session := i.SessionTimeout
	if session == 0 {
		session = probePatience
	}
	if t.member, err = wire.JoinAlone(ctx, t.client, t.member.Group, t.input.Topic, session, i.ServerSide); err != nil {
		return "", err
	}
	if t.producerID, t.epoch, err = wire.InitProducer(ctx, t.client, t.id, probeTransaction); err != nil {
		return "", err
	}
	t.began = true
	stale := t.bind(ctx, t.member.Generation+1)
	own := t.bind(ctx, t.member.Generation)
	switch {
	case stale == nil && own == nil:
		return "", fmt.Errorf("%w: it took an offset of generation %d in a group whose generation is %d", stream.ErrBrokerDoesNotFence, t.member.Generation+1, t.member.Generation)
	case stale == nil:
		return "", fmt.Errorf("%w: generation %d was taken, and %d, which the group has by what it told, was refused (%w)", errCrossed, t.member.Generation+1, t.member.Generation, own)
	case !fenced(stale):
		return "", fmt.Errorf("a stale generation was answered with %w", stale)
	case own != nil:
		return "", fmt.Errorf("the group's own generation was refused as well, so that the refusal of another shows nothing: %w", own)
	}
	return kerr.TypedErrorForCode(codeOf(stale)).Message, nil
}

// bind sends an offset of the input's first partition under a generation.
func (t *trial) bind(ctx context.Context, generation int32) error {
	return wire.BindOffset(ctx, t.client, wire.Binding{
		TransactionalID: t.id, ProducerID: t.producerID, ProducerEpoch: t.epoch,
		Group: t.member.Group, MemberID: t.member.MemberID, Generation: generation,
		Input: stream.Partition{Topic: t.input.Topic}, TopicID: t.input.ID, LeaderEpoch: -1,
	}, t.addOffsets)
}

// fenced reports whether an error is the refusal that the guarantees rest on.
func fenced(err error) bool {
	return errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.StaleMemberEpoch) || errors.Is(err, kerr.FencedMemberEpoch)
}

func codeOf(err error) int16 {
	if e := (*kerr.Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// clean leaves nothing behind, whatever came before and although ctx may have ended. The error says why
// the group is left.
func (t *trial) clean(ctx context.Context) error {
	if t.client == nil {
		return nil
	}
	defer t.client.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	var aborted error
	if t.began {
		aborted = wire.Abort(ctx, t.client, t.id, t.producerID, t.epoch)
	}
	if t.member.MemberID == "" {
		return nil // it was never in the group
	}
	err := t.member.Leave(ctx, t.client)
	for err == nil {
		// The broker takes the member out, and the markers of the abort arrive, a moment later.
		err = wire.DeleteGroup(ctx, t.client, t.member.Group)
		if !errors.Is(err, kerr.NonEmptyGroup) {
			break
		}
		select {
		case <-time.After(coordinatorPause):
			err = nil
		case <-ctx.Done():
		}
	}
	if err == nil && aborted != nil && !errors.Is(aborted, kerr.InvalidTxnState) {
		return aborted
	}
	return err
}

// probeClient is a client that ends transactions as the cluster's transaction.version has it: a 4.x
// broker takes the newer request also where the feature is below 2, and answers it as the older one.
func (i *inspection) probeClient() (*kgo.Client, error) {
	if i.found.Features.Fenced() {
		return i.Kafka.Client()
	}
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	return i.Kafka.Client(kgo.MaxVersions(versions))
}

// probeFix is the command that would let the probe run, where a permission is what it lacks.
func (i *inspection) probeFix(err error, t *trial) []string {
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return []string{wire.GrantGroup(i.client, i.Group+"-probe- --resource-pattern-type prefixed", "Read", "Delete")}
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		prefix, _, _ := strings.Cut(t.id, "-probe-")
		return []string{wire.GrantTransactionalID(i.client, prefix+" --resource-pattern-type prefixed", "Describe", "Write")}
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return []string{wire.GrantTopic(i.client, t.input.Topic, "Read")}
	}
	return []string{"look at the group's coordinator, then check again: holdfast check --probe"}
}
