package job

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/preflight"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// withTimings fills in what the brokers have for a group of KIP-848, and what follows from it: nothing of it
// was known when the configuration was made.
func (c Config) withTimings(found preflight.Found) (Config, error) {
	if c.Member.Protocol != fence.ServerSide {
		return c, nil
	}
	c.Member.SessionTimeout, c.Member.HeartbeatInterval = found.Timings.Session, found.Timings.Heartbeat
	set(&c.Member.SessionTimeout, fence.ServerSideSession)
	set(&c.Member.HeartbeatInterval, fence.ServerSideHeartbeat)
	set(&c.Commit.RevokeBudget, min(preflight.RevokeDefault, c.Member.RebalanceTimeout/2, max(c.revokeLimit(), time.Second)))
	var faults []error
	c.validateRevoke(func(format string, args ...any) { faults = append(faults, Fault(format, args...)) })
	if len(faults) == 0 {
		return c, nil
	}
	e := stream.NewError("check", errors.Join(faults...))
	e.Group = c.Group
	return c, e.Hinted("raise Member.RebalanceTimeout, or lower %s of the group, %v", wire.GroupHeartbeatConfig, c.Member.HeartbeatInterval)
}

// logTimings tells what the membership waits for, and by which name each time is changed: under KIP-848 two
// of them are not the program's.
func (c Config) logTimings() {
	m := c.Member
	session, heartbeat := "Member.SessionTimeout", "Member.HeartbeatInterval"
	if m.Protocol == fence.ServerSide {
		session, heartbeat = "group config "+wire.GroupSessionConfig, "group config "+wire.GroupHeartbeatConfig
	}
	attrs := []any{
		"group", c.Group, "protocol", m.Protocol.String(), "session", m.SessionTimeout, "heartbeat", m.HeartbeatInterval,
		"rebalance_timeout", m.RebalanceTimeout, "revoke_budget", c.Commit.RevokeBudget,
		"session_set_by", session, "heartbeat_set_by", heartbeat,
	}
	if c.Guarantee != Unfenced {
		attrs = append(attrs, "transaction_timeout", m.TransactionTimeout)
	}
	if m.InstanceID != "" {
		attrs = append(attrs, "instance", m.InstanceID)
	}
	c.Logger.Info("member timings", attrs...)
}
