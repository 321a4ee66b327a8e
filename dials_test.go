package holdfast_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pipe"
	"github.com/holdfast-go/holdfast/stream"
)

// New asks no broker anything and starts nothing: a program can make its components before it is ready to run them, and
// drop one that it does not run. In the bubble whatever New had started would have come to its first wait, and
// be left behind at the end.
func TestNewDialsNobody(t *testing.T) {
	t.Parallel()
	dialled := func(t *testing.T) kgo.Opt {
		return kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
			t.Error("New dials a broker")
			return nil, errors.New("there is no network")
		})
	}
	for name, make := range map[string]func(*testing.T) error{
		"flow": func(t *testing.T) error {
			conf := good()
			conf.Kafka.Opts = append(conf.Kafka.Opts, dialled(t))
			_, err := holdfast.New(conf)
			return err
		},
		"pipe": func(t *testing.T) error {
			conf := pipe.Config{
				Kafka: good().Kafka, Group: "pipe", Inputs: []string{"payments"}, Outputs: []string{"checked"},
				Func: func(context.Context, stream.Record, *pipe.Out) error { return nil },
			}
			conf.Kafka.Opts = append(conf.Kafka.Opts, dialled(t))
			_, err := pipe.New(conf)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := make(t); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			})
		})
	}
}
