package main

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
)

const memberName = "demo-member"

// demoMemberCommand is one member process of the demo. Its specification comes on standard input.
func (a *app) demoMemberCommand() *cobra.Command {
	return &cobra.Command{
		Use:    memberName,
		Short:  "Run one member process of holdfast demo, which starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			k, err := a.connection.config(c.Context())
			if err != nil {
				return err
			}
			return demo.RunMember(c.Context(), k, a.logger(), a.stdin, a.stdout)
		},
	}
}
