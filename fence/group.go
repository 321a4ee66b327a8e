package fence

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/internal/rule"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/kafka"
	"github.com/holdfast-go/holdfast/stream"
)

// Group turns the callbacks of one consumer-group member into ownerships. It installs assigned,
// revoked and lost itself, so that no caller can misorder them. It is safe for concurrent use.
type Group struct {
	assigned func(context.Context, *Ownership)
	released func(o *Ownership, lost bool)
	session  *session
	client   *kgo.Client
	kafka    kafka.Config
	protocol Protocol
	// application is what the member tells.
	application Application
	ctx         context.Context // carries the rule switches of the run; it is never cancelled by us
	ready       chan struct{}   // closed when NewClient is done: the client calls back before it returns

	granting context.Context // ends when nothing is granted any more
	shut     context.CancelFunc

	mu      sync.Mutex
	counter int64
	owned   map[stream.Partition]*Ownership // assigned by the group, whatever the ownership's state
	closed  bool                            // what was owned has been ended, and no callback does anything
	calls   sync.WaitGroup                  // callbacks under way; none begins once closed is set
	under   int                             // how many these are
	exited  chan struct{}                   // has room for one: a callback has returned
}

// NewGroup returns a Group that calls assigned for each grant and released for each end of one.
//
// Both are called inside the client's callbacks, for several partitions at once, and the callback
// waits for all of them: assigned must return below the rebalance timeout, and heartbeats go on
// meanwhile. released(o, false) is called while o is draining: what was folded may still be
// committed; when it returns, o is gone. released(o, true) is called after the ownership was lost:
// nothing may be flushed. In both cases no write and no output may leave after released returns.
// An ownership that ended before the partition was taken away is released as well.
//
// Each ownership ends, and is released once, whatever the client tells: when the client closes, on any
// way, what it has not taken back is lost (R24). An ownership that Renew replaces was gone before, and is
// not released.
func NewGroup(assigned func(context.Context, *Ownership), released func(o *Ownership, lost bool)) *Group {
	g := &Group{
		assigned: assigned, released: released, session: newSession(),
		owned: map[stream.Partition]*Ownership{}, ready: make(chan struct{}), exited: make(chan struct{}, 1),
	}
	g.granting, g.shut = context.WithCancel(context.Background())
	return g
}

// Session are protocol and timings of the membership.
type Session struct {
	Group      string
	InstanceID string // static membership; "": none
	Protocol   Protocol
	// SessionTimeout and HeartbeatInterval are asked for in the classic protocols; zero: 10 s and 3 s. Under
	// ServerSide the group's configuration at the brokers decides, consumer.session.timeout.ms and
	// consumer.heartbeat.interval.ms: say here what they are; zero: the brokers' defaults, 45 s and 5 s. A
	// session that is shorter than it says here lets a woken process act for longer (Ownership.AwaitFresh).
	SessionTimeout    time.Duration
	RebalanceTimeout  time.Duration // zero: 60 s
	HeartbeatInterval time.Duration
	// Application is what the member tells the group that it is, for Group.Others of the other members. In a
	// classic group it is told in the user data of the assignors that this package sets, under ServerSide behind
	// the client id. Zero: it tells nothing.
	Application Application
}

// The brokers' defaults for a group of KIP-848.
const (
	ServerSideSession   = 45 * time.Second
	ServerSideHeartbeat = 5 * time.Second
)

// WithDefaults returns s with the zero fields filled in.
func (s Session) WithDefaults() Session {
	if s.Protocol == ServerSide {
		s.SessionTimeout = orDefault(s.SessionTimeout, ServerSideSession)
		s.HeartbeatInterval = orDefault(s.HeartbeatInterval, ServerSideHeartbeat)
	}
	if s.SessionTimeout == 0 {
		s.SessionTimeout = 10 * time.Second
	}
	if s.RebalanceTimeout == 0 {
		s.RebalanceTimeout = 60 * time.Second
	}
	if s.HeartbeatInterval == 0 {
		s.HeartbeatInterval = min(3*time.Second, s.SessionTimeout/3)
	}
	return s
}

// NewClient makes the member's client, once a Group. It sets the group, the protocol, the timings, the callbacks,
// DisableAutoCommit, BlockRebalanceOnPoll and NoResetOffset; options that touch these are refused
// with ErrReservedOption. Call AllowRebalance after each poll. A poll that returns no Fetch at all (len 0) blocks no
// rebalance: poll again before anything that needs that.
//
// The client never chooses where to start, since only the caller knows what its states cover: give it
// the offset by SetOffsets inside assigned, which is before it fetches, or between two polls. It is
// the Next that Open found, or, where that is -1, a start of the caller's own. Without SetOffsets the
// client fetches from the committed offset, and a group without one polls for ever and gets nothing.
//
// ctx carries values only; ending it
// does not close the client.
func (g *Group) NewClient(ctx context.Context, k kafka.Config, s Session, opts ...kgo.Opt) (*kgo.Client, error) {
	if s.Group == "" {
		return nil, stream.NewError("join group", fmt.Errorf("no group name: %w", stream.ErrConfig))
	}
	if err := refuseReserved(opts); err != nil {
		return nil, err
	}
	if s.Protocol < Cooperative || s.Protocol > ServerSide {
		return nil, stream.NewError("join group", fmt.Errorf("%v is not known: %w", s.Protocol, stream.ErrConfig))
	}
	s = s.WithDefaults()
	g.session.expectServerSide = s.Protocol == ServerSide
	g.ctx = context.WithoutCancel(ctx)
	g.session.group, g.session.instanceID = s.Group, s.InstanceID
	g.session.sessionTimeout, g.session.rebalanceTimeout = s.SessionTimeout, s.RebalanceTimeout
	g.session.silence() // which is counted from here on
	ours := []kgo.Opt{
		kgo.ConsumerGroup(s.Group),
		kgo.SessionTimeout(s.SessionTimeout),
		kgo.RebalanceTimeout(s.RebalanceTimeout),
		kgo.HeartbeatInterval(s.HeartbeatInterval),
		kgo.OnPartitionsAssigned(g.onAssigned),
		kgo.OnPartitionsRevoked(g.onRevoked),
		kgo.OnPartitionsLost(g.onLost),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.WithHooks(g.session, ending{g}),
	}
	if s.InstanceID != "" {
		ours = append(ours, kgo.InstanceID(s.InstanceID))
	}
	if s.Protocol == ServerSide {
		id, err := s.Application.clientID(k, opts)
		if err != nil {
			return nil, err
		}
		ours = append(ours, id...)
	}
	cl, err := k.Client(append(s.Protocol.options(slices.Clone(opts), s.Application), ours...)...)
	if err != nil {
		return nil, err
	}
	defer close(g.ready)
	g.application = s.Application
	g.client, g.kafka, g.protocol = cl, k, s.Protocol
	g.session.metadata = cl.GroupMetadata
	g.session.ask = g.session.askThrough(cl)
	return cl, nil
}

// leaveLimit bounds the wait of Close for the group's answer. A group that was not told notices within the session.
const leaveLimit = 2 * time.Second

// Close closes the member's client, as its CloseAllowingRebalance does: released is called for what is held,
// and the group is left, but for a static member of a classic group, which may come back within its session.
// What the client revokes on its way out is drained with all else that is held; what it does not is lost. When
// Close returns each ownership is gone and was released, and nothing is granted from the moment it is called.
// Call it once, not from a callback. A client that is closed without it ends the ownerships too.
//
// A static member under ServerSide has to tell the group that; the client's own request to do so lacks the
// instance id, and the brokers refuse it. The error is about this alone: all else is closed.
func (g *Group) Close(ctx context.Context) error {
	g.shut()
	g.leave(ctx)
	g.client.CloseAllowingRebalance()
	memberID, epoch := g.session.metadata()
	if g.protocol != ServerSide || g.session.instanceID == "" || epoch < 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	cl, err := g.kafka.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	err = wire.LeaveStatic(ctx, cl, g.session.group, memberID, g.session.instanceID)
	if err == nil || errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.GroupIDNotFound) {
		return nil // out of the group
	}
	e := stream.NewError("leave group", err)
	e.Group = g.session.group
	return e.Hinted("the group keeps the instance id %q until its session is over, and a process that comes with it waits for that", g.session.instanceID)
}

// offline is the dialer of a client that is made to read its options back.
var offline = kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("this client only reads its own options")
})

// refuseReserved refuses options that set what the Group sets. A client of a group has callbacks of
// its own around the user's, so that they cannot be read back: but kgo refuses callbacks where there
// is no group, and that tells.
func refuseReserved(opts []kgo.Opt) error {
	callbacks := map[string]kgo.Opt{
		"OnPartitionsAssigned": kgo.OnPartitionsAssigned(nil),
		"OnPartitionsRevoked":  kgo.OnPartitionsRevoked(nil),
		"OnPartitionsLost":     kgo.OnPartitionsLost(nil),
	}
	valid := func(but string) error {
		all := append(slices.Clip(opts), kgo.ConsumerGroup(""))
		for name, none := range callbacks {
			if name != but {
				all = append(all, none)
			}
		}
		return kgo.ValidateOpts(all...)
	}
	if err := valid(""); err != nil {
		return stream.NewError("join group", fmt.Errorf("%w: %w", stream.ErrConfig, err))
	}
	var refused []error
	for name := range callbacks {
		if valid(name) != nil {
			refused = append(refused, fmt.Errorf("%w: %s", stream.ErrReservedOption, name))
		}
	}
	given, err := kgo.NewClient(append(slices.Clip(opts), offline)...)
	if len(refused) == 0 && err == nil {
		defer given.Close()
		if isSet(given.OptValue(kgo.AdjustFetchOffsetsFn)) {
			refused = append(refused, fmt.Errorf("%w: AdjustFetchOffsetsFn", stream.ErrReservedOption))
		}
	}
	return errors.Join(refused...)
}

// Silence returns how long the group has given this member no answer that lets it go on, less the time, up to
// the rebalance timeout, that a JoinGroup waits for the other members. An error is no such answer. The client
// tries for ever, and says nothing: a caller that must not wait for ever looks here.
func (g *Group) Silence() time.Duration { return g.session.silence() }

// FellBack is closed when the client was to speak ServerSide and spoke a classic protocol: a broker does
// not offer KIP-848, and the client then does so without a word. Nothing is granted from then on.
func (g *Group) FellBack() <-chan struct{} { return g.session.fellBack }

// Owned returns the ownership of p: nil if p is not assigned, and possibly one that is gone.
func (g *Group) Owned(p stream.Partition) *Ownership {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owned[p]
}

// grantLocked makes an ownership under memberID. Look at mayGrant first.
func (g *Group) grantLocked(p stream.Partition, memberID string) *Ownership {
	g.counter++
	o := newOwnership(g.counter, p, memberID, g.session)
	g.owned[p] = o
	return o
}

// Renew grants a partition anew whose ownership is gone while the group still assigns it to this
// member: nobody else ever will (R2). The grant is bound to the same member id as the one before
// (R4), and the group must have answered under that id first. It returns nil if there is nothing to
// renew: the partition was taken away, the member has another id (a callback follows and grants), or
// the ownership is not gone. Call it from the polling goroutine while rebalances are blocked, and again after
// a nil as long as Owned returns the same ownership: no callback follows where a coordinator was deposed and
// said, before it heard of that, that it does not know the member. Once the Group closes there is nothing to
// renew; of a Renew that is under way then, the ownership may have been released before it is returned.
func (g *Group) Renew(ctx context.Context, gone *Ownership) (*Ownership, error) {
	current := func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.owned[gone.partition] == gone
	}
	if gone.State() != Gone || !current() || !g.mayGrant() {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.granting, cancel)()
	liveID, _ := g.session.metadata()
	if liveID != gone.memberID || g.session.joinNumber() != gone.joins {
		return nil, nil
	}
	asking := newOwnership(0, gone.partition, gone.memberID, g.session)
	if err := asking.confirm(ctx); err != nil {
		if errors.Is(err, stream.ErrOwnershipLost) || !g.mayGrant() {
			return nil, nil // the client learns it with its next heartbeat, and Lost follows; or it closes
		}
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.owned[gone.partition] != gone || !g.mayGrant() {
		return nil, nil
	}
	return g.grantLocked(gone.partition, gone.memberID).renewed(), nil
}

// takeStale ends every ownership that was granted under another member id than the live one, and
// returns them. kgo rejoins silently under the cooperative protocol: no Lost, and no callback at all
// but an empty Assigned when the partition comes back, so each callback must look (R2).
func (g *Group) takeStale() (stale []*Ownership) {
	if !rule.On(g.ctx, rule.GrantID) {
		return nil
	}
	liveID, _ := g.session.metadata()
	joins := g.session.joinNumber()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.owned {
		if o.memberID != liveID || o.joins != joins {
			o.Lose(fmt.Errorf("the member rejoined under another id: %w", stream.ErrOwnershipLost))
			stale = append(stale, o)
		}
	}
	return stale
}

// regrant gives a new ownership to each partition of stale that is still assigned. Where nothing is granted
// any more they are forgotten: they have been released.
func (g *Group) regrant(stale []*Ownership) (granted []*Ownership) {
	liveID, _ := g.session.metadata()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range stale {
		switch {
		case g.owned[o.partition] != o:
		case g.mayGrant():
			granted = append(granted, g.grantLocked(o.partition, liveID))
		default:
			delete(g.owned, o.partition)
		}
	}
	return granted
}

func union(a, b []*Ownership) []*Ownership {
	for _, o := range b {
		if !slices.Contains(a, o) {
			a = append(a, o)
		}
	}
	return a
}

func isSet(v any) bool {
	r := reflect.ValueOf(v)
	return r.IsValid() && !r.IsZero()
}

// each calls do for all of os side by side and waits.
func each(os []*Ownership, do func(*Ownership)) {
	var wg sync.WaitGroup
	for _, o := range os {
		wg.Go(func() { do(o) })
	}
	wg.Wait()
}

// onAssigned, like the other callbacks, first waits until NewClient is done: the client joins the
// group while it is being made, and a quick group answers before the session knows the client.
func (g *Group) onAssigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	if !g.enter() {
		return
	}
	defer g.exit()
	defer g.session.wake()
	g.session.seated()
	stale := g.takeStale()
	each(stale, func(o *Ownership) { g.release(o, true) })
	granted := g.regrant(stale)
	fresh, replaced := g.grant(added)
	each(replaced, func(o *Ownership) { g.release(o, true) })
	each(append(granted, fresh...), func(o *Ownership) { g.assigned(g.ctx, o) })
	g.session.settle()
}

// grant makes the ownerships of added. One that is replaced is lost, and has yet to be released.
func (g *Group) grant(added map[string][]int32) (granted, replaced []*Ownership) {
	liveID, _ := g.session.metadata()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mayGrant() {
		return nil, nil
	}
	for topic, partitions := range added {
		for _, n := range partitions {
			p := stream.Partition{Topic: topic, Partition: n}
			if old := g.owned[p]; old != nil {
				old.Lose(fmt.Errorf("assigned again: %w", stream.ErrOwnershipLost))
				replaced = append(replaced, old)
			}
			granted = append(granted, g.grantLocked(p, liveID))
		}
	}
	return granted, replaced
}

func (g *Group) onRevoked(_ context.Context, _ *kgo.Client, removed map[string][]int32) {
	if !g.enter() {
		return
	}
	defer g.exit()
	defer g.session.wake()
	liveID, generation := g.session.metadata()
	token := Token{MemberID: liveID, Generation: generation, InstanceID: g.session.instanceID}
	stale := g.takeStale()
	revoked := g.take(removed)
	if g.granting.Err() != nil {
		revoked = append(revoked, g.takeAll()...) // a member that leaves gives up all that it has
	}
	if !rule.On(g.ctx, rule.RevokeTeardown) {
		revoked = nil // the callback returns while the ownerships go on
	}
	each(union(revoked, stale), func(o *Ownership) { g.release(o, !o.drain(token)) }) // gone already: as lost
	each(g.regrant(stale), func(o *Ownership) { g.assigned(g.ctx, o) })
}

// onLost ends all that is owned, and not only what the client names: it is the membership that ended.
func (g *Group) onLost(context.Context, *kgo.Client, map[string][]int32) {
	if !g.enter() {
		return
	}
	defer g.exit()
	g.session.membershipEnded()
	each(g.takeAll(), func(o *Ownership) {
		o.Lose(fmt.Errorf("the membership ended, because the group no longer knows this member or its coordinator did not answer: %w", stream.ErrOwnershipLost))
		g.release(o, true)
	})
}

// take removes partitions from what is assigned and returns their ownerships.
func (g *Group) take(removed map[string][]int32) (taken []*Ownership) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for topic, partitions := range removed {
		for _, n := range partitions {
			p := stream.Partition{Topic: topic, Partition: n}
			if o := g.owned[p]; o != nil {
				delete(g.owned, p)
				taken = append(taken, o)
			}
		}
	}
	return taken
}
