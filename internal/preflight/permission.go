package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/holdfast-go/holdfast/claim"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// triedIDs bounds how many transactional ids are tried: an ACL is for a prefix of all of them, and where
// it is for each one by name, the first and the last tell most.
const triedIDs = 2

// transactionalIDs makes sure that the transactional ids may be used, by a request that takes the same
// permission and changes nothing. Without it the lack would be found at the first assignment.
func (i *inspection) transactionalIDs(parent context.Context) error {
	if !i.Transactional || i.found.partitions() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(parent, i.patience)
	defer cancel()
	ids := []string{fence.TransactionalID(i.Group, i.Progress.Topic, 0), fence.TransactionalID(i.Group, i.Progress.Topic, i.found.partitions()-1)}
	prefix := strings.TrimSuffix(ids[0], "0")
	what := "transactional ids " + prefix + "N"
	for _, id := range slices.Compact(ids[:min(triedIDs, len(ids))]) {
		err := wire.TryTransactionalID(ctx, i.client, id, i.Group)
		switch {
		case parent.Err() != nil:
			return context.Cause(parent)
		case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
			e := stream.NewError("check transactional id", fmt.Errorf("%w: %w: %s", stream.ErrNotAuthorized, err, id)).
				Hinted("a %s needs Describe, Write on its transactional ids: %s", i.Component,
					wire.GrantTransactionalID(i.client, prefix+" --resource-pattern-type prefixed", "Describe", "Write"))
			e.Group, e.TransactionalID = i.Group, id
			return i.found.note("acl.transactional-id", what, "", e)
		case errors.Is(err, kerr.GroupAuthorizationFailed):
			return nil // what the group lacks is noted with the group
		case err != nil:
			i.found.add(claim.Finding{ID: "acl.transactional-id", What: what, Fact: "whether they may be used is not known",
				Advice: err.Error(), Fix: []string{"wait until the brokers are up, then check again"}})
			return nil
		}
	}
	return i.found.note("acl.transactional-id", what, "Describe and Write are permitted", nil)
}

// permissions lists, resource by resource, what the component needs and what the broker says of it. What
// is refused is a fault of the resource's own finding, and is not told twice.
func (i *inspection) permissions(ctx context.Context) {
	for _, in := range i.found.Inputs {
		i.permission("input", in, "Read")
	}
	i.permission(i.Progress.Role, i.found.Progress, "Read", "Write")
	for _, topic := range i.Outputs {
		i.permission("output", i.found.Outputs[topic], "Write")
	}
	if i.DeadLetters != "" {
		i.permission("dead-letter", i.found.Outputs[i.DeadLetters], "Write")
	}
	g, err := wire.DescribeGroup(ctx, i.client, i.Group)
	if err != nil {
		return // noted with the group
	}
	i.told("acl.group", "permissions on group "+i.Group, g.Permitted, wire.GrantGroup(i.client, i.Group, "Read"), "Read")
}

func (i *inspection) permission(role string, f wire.Facts, operations ...string) {
	if f.Exists {
		i.told("acl."+role, "permissions on "+role+" topic "+f.Topic, f.Permitted, wire.GrantTopic(i.client, f.Topic, operations...), operations...)
	}
}

// told notes what the broker has said of operations.
func (i *inspection) told(id, what string, permitted wire.Operations, grant string, needs ...string) {
	for _, need := range needs {
		if permitted.Refuses(operations[need]) {
			return
		}
	}
	words := strings.Join(needs, " and ")
	if permitted.Told() {
		i.found.add(claim.Finding{ID: id, What: what, Fact: words + " permitted"})
		return
	}
	i.found.add(claim.Finding{ID: id, What: what, Fact: words + " needed",
		Advice: "the broker does not tell what is permitted, so that a lack is found at the first use", Fix: []string{"if ACLs are in use: " + grant}})
}
