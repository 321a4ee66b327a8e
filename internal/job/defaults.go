package job

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/preflight"
	"github.com/holdfast-go/holdfast/internal/visible"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// maxTransactionTimeout bounds how long a transaction that nobody ends can hold readers back.
const maxTransactionTimeout = 30 * time.Second

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Fault is one fault of a configuration.
func Fault(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{stream.ErrConfig}, args...)...)
}

func (c Config) withDefaults() Config {
	c.Inputs, c.Outputs = slices.Clone(c.Inputs), slices.Clone(c.Outputs)
	c.Hooks = slices.Clone(c.Hooks)
	set(&c.Member.RebalanceTimeout, 60*time.Second)
	if c.Member.Protocol != fence.ServerSide { // there the brokers have them: see withTimings
		set(&c.Member.SessionTimeout, 10*time.Second)
		set(&c.Member.HeartbeatInterval, min(3*time.Second, c.Member.SessionTimeout/3))
	}
	set(&c.Member.TransactionTimeout, maxTransactionTimeout)
	set(&c.Member.UnreachableTimeout, 5*time.Minute)
	set(&c.Member.QueueRecords, 2000)
	set(&c.Restore.StallTimeout, 3*time.Minute)
	set(&c.Restore.RetainBytes, 256<<20)
	set(&c.Restore.RetainFor, 2*time.Minute)
	if c.Guarantee == FencedOutputs {
		set(&c.Commit.Interval, 100*time.Millisecond)
		set(&c.Commit.MaxWrites, 10_000)
	} else {
		set(&c.Commit.Persist, 30*time.Second)
		set(&c.Commit.Interval, 5*time.Second)
		set(&c.Commit.MaxWrites, 256)
	}
	set(&c.Commit.PersistCooldown, time.Second)
	set(&c.Commit.MaxBytes, 4<<20)
	if c.Member.Protocol != fence.ServerSide {
		set(&c.Commit.RevokeBudget, min(preflight.RevokeDefault, c.Member.RebalanceTimeout/2, max(c.revokeLimit(), 0)))
	}
	if c.DeadLetters != nil {
		policy := c.DeadLetters.WithDefaults()
		c.DeadLetters = &policy
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = slog.New(visible.NewHandler(c.Logger.Handler())) // brokers and records have a say in what is logged
	return c
}

// validate returns every fault that it finds, after those that the component has found itself.
func (c Config) validate(faults []error) error {
	fault := func(format string, args ...any) {
		faults = append(faults, Fault(format, args...))
	}
	if err := c.Kafka.Validate(); err != nil {
		faults = append(faults, err)
	}
	c.validateParts(fault)
	c.validateTimes(fault)
	return errors.Join(faults...)
}

func (c Config) validateParts(fault func(string, ...any)) {
	if c.Group == "" {
		fault("Group is required")
	}
	for i, topic := range c.Inputs {
		if topic == "" || slices.Contains(c.Inputs[:i], topic) {
			fault("Inputs names topic %q, which is empty or named twice", topic)
		}
	}
	uses := map[string]string{c.Progress.Topic: c.Progress.Role}
	for _, topic := range c.Inputs {
		uses[topic] = "input"
	}
	for _, topic := range c.Outputs {
		if topic == "" {
			fault("Outputs has an empty topic name")
		}
		if use := uses[topic]; use != "" && use != "output" {
			fault("output topic %q is also the %s topic", topic, use)
		}
		uses[topic] = "output"
	}
	if slices.Contains(c.Inputs, c.Progress.Topic) {
		fault("%s %q is also the input topic", c.Progress.TopicField, c.Progress.Topic)
	}
	if c.Progress.Create != nil {
		if policy, ok := c.Progress.Create.Configs["cleanup.policy"]; ok && policy != "compact" {
			fault("%s.Configs: cleanup.policy is %q, it must be compact", c.Progress.CreateField, policy)
		}
	}
	if c.DeadLetters != nil {
		if err := c.DeadLetters.Validate(); err != nil {
			fault("DeadLetters: %w", err)
		}
		if topic := c.DeadLetters.Topic; uses[topic] != "" {
			fault("DeadLetters.Topic %q is also the %s topic", topic, uses[topic])
		}
	}
	c.validateNames(fault)
	c.validateChoices(fault)
	if c.Guarantee == FencedOutputs {
		c.validateWhole(fault)
	}
}

// validateWhole refuses what would break a batch that is committed as a whole.
func (c Config) validateWhole(fault func(string, ...any)) {
	if c.Commit.OnPersistError == KeepDirty {
		fault("Commit.OnPersistError KeepDirty does not go with FencedOutputs: outputs would be committed without the state that they came from. Leave it unset, or choose FencedState")
	}
	if c.Commit.Persist != 0 {
		fault("Commit.Persist %v does not go with FencedOutputs: every changed state is committed with its outputs, at Commit.Interval. Leave it unset, or choose FencedState", c.Commit.Persist)
	}
}

// validateChoices refuses values that are none of the constants: taken for the default, they would do
// something else than was meant.
// validateNames finds names that Kafka would refuse, of which the derived one is the one that nobody has written down.
func (c Config) validateNames(fault func(string, ...any)) {
	if name := c.Progress.Topic; c.Group != "" && !wire.TopicName(name) {
		fault("%s is %q, which Kafka does not take: %s. If it is unset, it is derived from the group %q: name it",
			c.Progress.TopicField, name, wire.TopicNameHint, c.Group)
	}
	names := []string{c.Progress.Topic}
	if c.DeadLetters != nil && c.DeadLetters.Topic != "" {
		names = append(names, c.DeadLetters.Topic)
	}
	for _, name := range slices.Concat(c.Inputs, c.Outputs) {
		if name != "" && !wire.TopicName(name) {
			fault("topic %q has a name that Kafka does not take: %s", name, wire.TopicNameHint)
		}
		names = append(names, name)
	}
	for i, name := range names {
		for _, other := range names[:i] {
			if wire.TopicNamesCollide(name, other) {
				fault("topics %q and %q cannot exist side by side: Kafka takes a dot in a name for an underscore. "+
					"Give one of them another name; that of %s is yours to choose", other, name, c.Progress.TopicField)
			}
		}
	}
}

func (c Config) validateChoices(fault func(string, ...any)) {
	if c.Guarantee < FencedState || c.Guarantee > Unfenced {
		fault("Guarantee(%d) is not known", int(c.Guarantee))
	}
	if c.Member.Protocol < fence.Cooperative || c.Member.Protocol > fence.ServerSide {
		fault("Member.Protocol %d is not known: choose Cooperative, Eager or ServerSide", int(c.Member.Protocol))
	}
	if c.Start.New < Earliest || c.Start.New > AtTime {
		fault("Start.New %d is not known: choose Earliest, Latest or AtTime", int(c.Start.New))
	}
	if c.Start.New == AtTime && c.Start.Time.IsZero() {
		fault("Start.Time is required by Start.New AtTime")
	}
	if c.Start.Disagreement < StopAndAsk || c.Start.Disagreement > ResumeAtLogStart {
		fault("Start.Disagreement %d is not known: choose StopAndAsk, ResumeAtProgress, AdoptEmpty, AdoptRemaining, Rebuild or ResumeAtLogStart", int(c.Start.Disagreement))
	}
	if c.Commit.OnPersistError != StopOnPersistError && c.Commit.OnPersistError != KeepDirty {
		fault("Commit.OnPersistError %d is not known: choose StopOnPersistError or KeepDirty", int(c.Commit.OnPersistError))
	}
}

// revokeLimit is the longest revoke budget: overrunning the rebalance timeout loses the kept partitions too.
func (c Config) revokeLimit() time.Duration {
	return c.Member.RebalanceTimeout - c.Member.HeartbeatInterval - 2*time.Second
}

func (c Config) validateRevoke(fault func(string, ...any)) {
	if limit := c.revokeLimit(); c.Commit.RevokeBudget > limit {
		fault("Commit.RevokeBudget %v is over the rebalance timeout less the heartbeat interval and 2 s, %v: "+
			"overrunning the rebalance timeout loses the kept partitions too", c.Commit.RevokeBudget, limit)
	}
}

func (c Config) validateClassic(fault func(string, ...any)) {
	m := c.Member
	if m.HeartbeatInterval > m.SessionTimeout/3 {
		fault("Member.HeartbeatInterval %v is over a third of the session timeout %v", m.HeartbeatInterval, m.SessionTimeout)
	}
	if m.SessionTimeout > m.RebalanceTimeout {
		fault("Member.SessionTimeout %v is over the rebalance timeout %v", m.SessionTimeout, m.RebalanceTimeout)
	}
	c.validateRevoke(fault)
}

// validateServerSide refuses what a member of KIP-848 cannot ask for: it would be without effect.
func (c Config) validateServerSide(fault func(string, ...any)) {
	const instead = "%s %v does not go with ServerSide, where the brokers decide: leave it unset, and set %s of the group instead " +
		"(kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type groups --entity-name %s --add-config %s=%d; " +
		"the brokers take no less than their %s, %s in stock ones, and have the default in group.%s)"
	for _, d := range []struct {
		field, config string
		value         time.Duration
		least, stock  string
	}{
		{"Member.SessionTimeout", wire.GroupSessionConfig, c.Member.SessionTimeout, "group.consumer.min.session.timeout.ms", "45 s"},
		{"Member.HeartbeatInterval", wire.GroupHeartbeatConfig, c.Member.HeartbeatInterval, "group.consumer.min.heartbeat.interval.ms", "5 s"},
	} {
		if d.value != 0 {
			fault(instead, d.field, d.value, d.config, c.Group, d.config, d.value.Milliseconds(), d.least, d.stock, d.config)
		}
	}
}

func (c Config) validateTimes(fault func(string, ...any)) {
	m := c.Member
	if c.Guarantee == FencedOutputs {
		set(&c.Commit.Persist, time.Hour) // has no meaning there, and was refused if it was set
	}
	if m.Protocol == fence.ServerSide {
		c.validateServerSide(fault)
		// Not known before the start.
		m.SessionTimeout, m.HeartbeatInterval = fence.ServerSideSession, fence.ServerSideHeartbeat
		set(&c.Commit.RevokeBudget, time.Second)
	} else {
		c.validateClassic(fault)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Member.SessionTimeout", m.SessionTimeout}, {"Member.RebalanceTimeout", m.RebalanceTimeout},
		{"Member.HeartbeatInterval", m.HeartbeatInterval}, {"Member.TransactionTimeout", m.TransactionTimeout},
		{"Member.UnreachableTimeout", m.UnreachableTimeout},
		{"Restore.StallTimeout", c.Restore.StallTimeout}, {"Commit.Persist", c.Commit.Persist},
		{"Commit.PersistCooldown", c.Commit.PersistCooldown}, {"Commit.Interval", c.Commit.Interval},
		{"Commit.RevokeBudget", c.Commit.RevokeBudget},
	} {
		if d.value <= 0 {
			fault("%s is %v, it must be positive", d.name, d.value)
		}
	}
	if m.TransactionTimeout > maxTransactionTimeout {
		fault("Member.TransactionTimeout %v is over %v", m.TransactionTimeout, maxTransactionTimeout)
	}
	if c.Commit.MaxWrites < 1 || c.Commit.MaxBytes < 1 || m.QueueRecords < 1 {
		fault("Commit.MaxWrites, Commit.MaxBytes and Member.QueueRecords must be at least 1")
	}
}
