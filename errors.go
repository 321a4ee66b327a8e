package holdfast

import "github.com/holdfast-go/holdfast/stream"

// Error says what happened, where, and what to do next.
type Error = stream.Error

// The conditions that a flow reports, wrapped in an *Error. Match with errors.Is. Package stream
// says of each what to do.
var (
	ErrConfig             = stream.ErrConfig
	ErrReservedOption     = stream.ErrReservedOption
	ErrTopic              = stream.ErrTopic
	ErrUnreachable        = stream.ErrUnreachable
	ErrTooSlow            = stream.ErrTooSlow
	ErrNotAuthenticated   = stream.ErrNotAuthenticated
	ErrNotAuthorized      = stream.ErrNotAuthorized
	ErrBrokerTooOld       = stream.ErrBrokerTooOld
	ErrBrokerDoesNotFence = stream.ErrBrokerDoesNotFence
	ErrOwnershipLost      = stream.ErrOwnershipLost
	ErrIDTaken            = stream.ErrIDTaken
	ErrOutcomeUnknown     = stream.ErrOutcomeUnknown
	ErrTooLarge           = stream.ErrTooLarge
	ErrRestoreStalled     = stream.ErrRestoreStalled
	ErrTruncated          = stream.ErrTruncated
	ErrOffsetMismatch     = stream.ErrOffsetMismatch
	ErrSnapshotsLost      = stream.ErrSnapshotsLost
	ErrOtherComponent     = stream.ErrOtherComponent
	ErrOtherApplication   = stream.ErrOtherApplication
	ErrFlood              = stream.ErrFlood
	ErrOtherGroup         = stream.ErrOtherGroup
	ErrOtherProtocol      = stream.ErrOtherProtocol
	ErrInstanceTaken      = stream.ErrInstanceTaken
	ErrGroupFull          = stream.ErrGroupFull
	ErrInputChanged       = stream.ErrInputChanged
	ErrFoldVersion        = stream.ErrFoldVersion
	ErrCorruptSnapshot    = stream.ErrCorruptSnapshot
	ErrNoKey              = stream.ErrNoKey
	ErrUndeclaredOutput   = stream.ErrUndeclaredOutput
	ErrEncode             = stream.ErrEncode
	ErrOutput             = stream.ErrOutput
	ErrFold               = stream.ErrFold
)
