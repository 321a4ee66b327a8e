package fence

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/stream"
)

// Token is what the group coordinator checks a commit against.
type Token struct {
	MemberID   string
	Generation int32
	InstanceID string // "" without static membership
}

// State is the state of an ownership. It only moves forward: held, draining, gone; or held, gone.
type State int32

const (
	// Held: the partition is ours.
	Held State = iota
	// Draining: the revoke callback runs. What was folded may be committed, nothing more is folded.
	Draining
	// Gone: no write and no output may leave.
	Gone
)

// String returns the lower-case name of the state.
func (s State) String() string {
	return [...]string{"held", "draining", "gone"}[s]
}

// Ownership is one grant of one partition. It is safe for concurrent use.
//
// It is revocable: the token is read through it at each commit, and that fails once the ownership
// is gone. It is bound to the member id it was granted under: a member that rejoins under another
// id (kgo does so silently under the cooperative protocol) has lost it, even if the partition came
// back.
type Ownership struct {
	number    int64
	partition stream.Partition
	memberID  string
	joins     int64
	nonce     uint64 // drawn at the grant; names its commits in progress records and offset metadata
	session   *session

	mu         sync.Mutex
	state      State
	cause      error
	drainToken Token
	inits      int // InitProducerID requests that were let through

	draining chan struct{}
	gone     chan struct{}
}

func newOwnership(number int64, p stream.Partition, memberID string, s *session) *Ownership {
	return &Ownership{
		number: number, partition: p, memberID: memberID, joins: s.joinNumber(), session: s, nonce: drawNonce(),
		draining: make(chan struct{}), gone: make(chan struct{}),
	}
}

// drawNonce never returns 0, which stands for commits of others.
func drawNonce() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails: it ends the process instead
		if n := binary.BigEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// Nonce names the commits under this ownership, with their sequence, in progress records and in the
// committed offset's metadata.
func (o *Ownership) Nonce() uint64 { return o.nonce }

// Number is the number of the grant: it rises over all grants of one Group.
func (o *Ownership) Number() int64 { return o.number }

// Partition is the partition that is owned.
func (o *Ownership) Partition() stream.Partition { return o.partition }

// MemberID is the member id that the partition was granted under.
func (o *Ownership) MemberID() string { return o.memberID }

// State returns the state.
func (o *Ownership) State() State {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state
}

// Draining is closed when the ownership leaves Held.
func (o *Ownership) Draining() <-chan struct{} { return o.draining }

// Gone is closed when the ownership is gone.
func (o *Ownership) Gone() <-chan struct{} { return o.gone }

// Cause says why the ownership is gone: nil while it is not, and after a plain revoke.
func (o *Ownership) Cause() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cause
}

// Lose ends the ownership at once. A nil cause is a plain release. Only the first call counts.
func (o *Ownership) Lose(cause error) {
	o.mu.Lock()
	if o.state == Gone {
		o.mu.Unlock()
		return
	}
	if o.state == Held {
		close(o.draining)
	}
	o.state, o.cause = Gone, cause
	close(o.gone)
	o.mu.Unlock()
	o.session.wake()
}

// drain moves to Draining with the token read at the entry of the revoke callback: the one that
// the broker accepts until the callback returns. It reports whether the ownership was held.
//
// A token without a member or a generation is none: the broker does not check a commit that carries
// it (I8). The member is about to join anew, and the ownership ends as lost:
//
//  1. The group fences the member; the client begins to join anew, under the same id and generation 0
//     (KIP-848), or -1.
//  2. A callback takes the partition away, before any that tells of the loss.
//  3. What was folded is committed with that generation, for a member that is not the owner any more.
func (o *Ownership) drain(t Token) bool {
	if t.MemberID == "" || t.Generation < o.session.leastGeneration() {
		o.Lose(o.lost("the member has no generation"))
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != Held {
		return false
	}
	o.state, o.drainToken = Draining, t
	close(o.draining)
	return true
}

func (o *Ownership) lost(format string, args ...any) error {
	return stream.NewError("own", fmt.Errorf(format+": %w", append(args, stream.ErrOwnershipLost)...)).At(o.partition, -1)
}

// Token reads the token for one transaction. The member id in it is always the grant's: only the
// generation is the live one, so that the broker itself refuses a member that rejoined (R2).
//
// The order matters: the live id and generation are read first, then the ownership is checked.
// The other order lets this through:
//
//  1. the ownership is checked: held
//  2. the member is expelled and rejoins silently; another owner commits; the partition comes back
//  3. the live token is read: it is valid, for a process whose state is stale
func (o *Ownership) Token(ctx context.Context) (Token, error) {
	liveID, generation := o.session.metadata()
	joins := o.session.joinNumber()
	o.mu.Lock()
	state, drainToken := o.state, o.drainToken
	o.mu.Unlock()
	switch state {
	case Gone:
		return Token{}, o.lost("ownership %d is gone (%v)", o.number, o.Cause())
	case Draining:
		return drainToken, nil
	case Held:
	}
	if rule.On(ctx, rule.GrantID) {
		if liveID != o.memberID || joins != o.joins {
			o.Lose(fmt.Errorf("the member rejoined under another id: %w", stream.ErrOwnershipLost))
			return Token{}, o.lost("the member rejoined under another id")
		}
	}
	if liveID == "" || generation < o.session.leastGeneration() { // I8: the broker would not check such a commit
		return Token{}, o.lost("the member has no generation")
	}
	return Token{MemberID: liveID, Generation: generation, InstanceID: o.session.instanceID}, nil
}

// NextToken waits for another generation than the refused one, under the same member id (R7). It
// returns ErrOwnershipLost once the ownership is gone, and after the rebalance timeout.
func (o *Ownership) NextToken(ctx context.Context, refused Token) (Token, error) {
	limit := time.NewTimer(o.session.rebalanceTimeout)
	defer limit.Stop()
	look := time.NewTicker(10 * time.Millisecond) // the client tells of most changes, not of all
	defer look.Stop()
	for {
		changed := o.session.watch()
		t, err := o.Token(ctx)
		if err != nil || t != refused {
			return t, err
		}
		if o.State() != Held { // the token of a revoke callback is the last there will be
			err := o.lost("generation %d was refused, and no other comes while draining", refused.Generation)
			o.Lose(err)
			return Token{}, err
		}
		select {
		case <-changed:
		case <-look.C:
		case <-o.gone:
		case <-limit.C:
			err := o.lost("generation %d was refused and no other came within the rebalance timeout", refused.Generation)
			o.Lose(err)
			return Token{}, err
		case <-ctx.Done():
			return Token{}, context.Cause(ctx)
		}
	}
}

// MayInit is asked before each InitProducerID leaves, retries included (R4). The first one of a
// grant may go. Each later one goes only after the group has answered once since the one before,
// under the grant's member id: a stale process and the rightful owner would else abort each other
// for ever. It never lets one through while draining or gone.
func (o *Ownership) MayInit(ctx context.Context) error {
	o.mu.Lock()
	state, first := o.state, o.inits == 0
	o.inits++
	o.mu.Unlock()
	if state != Held {
		return o.lost("no transactional id is initialised while %s", state)
	}
	if first || !rule.On(ctx, rule.Probe) {
		return nil
	}
	if err := o.confirm(ctx); err != nil {
		return err
	}
	// The group may have taken its time, and its answer may be that a rebalance has begun: by now the
	// partition may be on its way to another.
	if state := o.State(); state != Held {
		return o.lost("no transactional id is initialised while %s", state)
	}
	return nil
}

// renewed marks an ownership that was not granted in a callback: not even its first InitProducerID
// goes before the group has answered.
func (o *Ownership) renewed() *Ownership { o.inits = 1; return o }

// confirm returns nil once the group has answered under the grant's member id. It asks again on
// transport errors until the ownership is gone or ctx ends.
func (o *Ownership) confirm(ctx context.Context) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		t, err := o.Token(ctx)
		if err != nil {
			return err
		}
		// The token has the grant's member id, unless the rule that makes it so is switched off.
		err = o.session.ask(ctx, t.MemberID, t.Generation, o.partition)
		switch {
		case err == nil, errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.UnstableOffsetCommit):
			return nil // the group knows the member; a generation that moved on is R7's matter
		case errors.Is(err, kerr.StaleMemberEpoch):
			// Under KIP-848 a member raises its epoch itself, by a heartbeat: either the answer to that is on its
			// way, and the next token has it, or the group has expelled the member and taken it in again under the
			// same id, and the client has yet to learn that this ownership is lost.
		case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID), errors.Is(err, kerr.GroupIDNotFound),
			errors.Is(err, kerr.FencedMemberEpoch):
			lost := o.lost("the group does not know the member any more (%v)", err)
			o.Lose(lost)
			return lost
		case errors.Is(err, kerr.GroupAuthorizationFailed):
			return stream.NewError("confirm membership", fmt.Errorf("%w: %w", stream.ErrNotAuthorized, err)).At(o.partition, -1).
				Hinted("allow READ on the group %s", o.session.group)
		}
		select {
		case <-time.After(pause):
		case <-o.gone:
		case <-ctx.Done():
			return fmt.Errorf("confirm membership: %w", errors.Join(context.Cause(ctx), err))
		}
	}
}

// AwaitFresh returns nil when an output may leave: at once if the group has answered something sent
// within the session timeout (R16), else after the group, asked again, has said that it knows the
// member. It returns ErrOwnershipLost once the ownership is gone, or bound to another member id than
// the live one, and ErrNotAuthorized if the group may not be asked. It narrows the time in which a
// woken process acts on a partition that is no longer its own; it cannot close it.
func (o *Ownership) AwaitFresh(ctx context.Context) error {
	if _, err := o.Token(ctx); err != nil {
		return err
	}
	if !rule.On(ctx, rule.FreshSession) || o.session.fresh() {
		return nil
	}
	sent := o.session.now()
	if err := o.confirm(ctx); err != nil {
		return err
	}
	o.session.confirmed(sent)
	return nil
}
