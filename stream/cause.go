package stream

import "errors"

// causes names each condition for labels and log fields. Where an error matches several the first one
// counts: one that a person is called for stands above what may have led to it, and ErrFold, whose
// cause can be any error of the user, above what a fold can only have passed on.
var causes = []struct {
	err  error
	name string
}{
	{ErrIDTaken, "id-taken"}, {ErrFlood, "flood"}, {ErrNoKey, "no-key"}, {ErrUndeclaredOutput, "undeclared-output"},
	{ErrTooLarge, "too-large"}, {ErrFold, "fold"}, {ErrRestoreStalled, "restore-stalled"}, {ErrTruncated, "truncated"},
	{ErrOffsetMismatch, "offset-mismatch"}, {ErrSnapshotsLost, "snapshots-lost"}, {ErrOtherComponent, "other-component"}, {ErrOtherApplication, "other-application"}, {ErrOtherGroup, "other-group"}, {ErrOtherProtocol, "other-protocol"}, {ErrInstanceTaken, "instance-taken"}, {ErrGroupFull, "group-full"},
	{ErrInputChanged, "input-changed"}, {ErrFoldVersion, "fold-version"}, {ErrCorruptSnapshot, "corrupt-snapshot"},
	{ErrEncode, "encode"}, {ErrNotAuthorized, "not-authorized"},
	{ErrNotAuthenticated, "not-authenticated"}, {ErrBrokerTooOld, "broker-too-old"}, {ErrBrokerDoesNotFence, "broker-does-not-fence"}, {ErrReservedOption, "reserved-option"},
	{ErrConfig, "config"}, {ErrTopic, "topic"}, {ErrOutput, "output"}, {ErrOutcomeUnknown, "outcome-unknown"},
	{ErrTooSlow, "too-slow"}, {ErrUnreachable, "unreachable"}, {ErrNoOffset, "no-offset"}, {ErrOffsetBack, "offset-back"},
	{ErrOwnershipLost, "ownership-lost"}, {ErrClosed, "closed"},
}

// CauseOther is what Cause returns for an error that matches none of the sentinel errors.
const CauseOther = "other"

// Cause returns the short, stable name of the condition that err is about, as "id-taken" for
// ErrIDTaken: for labels of metrics and fields of logs, which must come from a small set. It is
// CauseOther for an error without a condition of its own, and "" for nil.
func Cause(err error) string {
	if err == nil {
		return ""
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return CauseOther
}

// Causes returns every name that Cause can return for an error.
func Causes() []string {
	out := make([]string, 0, len(causes)+1)
	for _, c := range causes {
		out = append(out, c.name)
	}
	return append(out, CauseOther)
}
