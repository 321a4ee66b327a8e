package prove

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/holdfast-go/holdfast/kafka"
)

// The orders that the second process takes, one a line.
const (
	orderInit  = "init"  // initialise the id with a new client
	orderWrite = "write" // write one record under the last of them, and commit
)

// rivalSpec is the first line that the second process is given.
type rivalSpec struct {
	ID    string `json:"id"`
	Topic string `json:"topic"`
}

// rivalAnswer is the answer to each line.
type rivalAnswer struct {
	Process    int    `json:"process"`
	ProducerID int64  `json:"producerID"`
	Epoch      int16  `json:"epoch"`
	Err        string `json:"err,omitempty"`
}

// RunRival is the second process of the fencing exercise: it does as the orders on in say, each of which
// it answers on out, until in ends.
func RunRival(ctx context.Context, k kafka.Config, in io.Reader, out io.Writer) error {
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	var spec rivalSpec
	if !lines.Scan() {
		return fmt.Errorf("no specification came: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
	}
	if err := json.Unmarshal(lines.Bytes(), &spec); err != nil {
		return fmt.Errorf("read the specification: %w", err)
	}
	r := rival{k: k, spec: spec}
	defer r.close()
	for lines.Scan() {
		answer := rivalAnswer{Process: os.Getpid()}
		var err error
		switch order := lines.Text(); order {
		case orderInit:
			answer.ProducerID, answer.Epoch, err = r.init(ctx)
		case orderWrite:
			err = r.write(ctx)
		default:
			err = fmt.Errorf("there is no order %q", order)
		}
		if err != nil {
			answer.Err = err.Error()
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return lines.Err()
}

type rival struct {
	k    kafka.Config
	spec rivalSpec
	cl   *kgo.Client
}

func (r *rival) close() {
	if r.cl != nil {
		r.cl.Close()
		r.cl = nil
	}
}

func (r *rival) init(ctx context.Context) (int64, int16, error) {
	r.close()
	cl, err := r.k.Client(kgo.TransactionalID(r.spec.ID), kgo.TransactionTimeout(transactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return 0, 0, err
	}
	r.cl = cl
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	return cl.ProducerID(ctx)
}

func (r *rival) write(ctx context.Context) error {
	if r.cl == nil {
		return errors.New("nothing was initialised")
	}
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if err := r.cl.BeginTransaction(); err != nil {
		return err
	}
	if err := write(ctx, r.cl, eventRecord(r.spec.Topic, secondEvent)); err != nil {
		return err
	}
	return r.cl.EndTransaction(ctx, kgo.TryCommit)
}

// second is the second process as the first sees it. It belongs to one goroutine at a time.
type second struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
	errors  strings.Builder
}

// startSecond starts the process. It ends when its standard input does, and is killed if that does not
// end it.
func startSecond(command []string, spec rivalSpec) (*second, error) {
	s := &second{cmd: exec.Command(command[0], command[1:]...)}
	for _, e := range os.Environ() { // its connection is on the command line alone
		if !strings.HasPrefix(e, "HOLDFAST_") {
			s.cmd.Env = append(s.cmd.Env, e)
		}
	}
	s.cmd.Stderr = &s.errors
	s.cmd.WaitDelay = time.Second
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the second process: %w", err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the second process: %w", err)
	}
	s.in, s.answers = in, bufio.NewScanner(out)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the second process: %w", err)
	}
	if err := json.NewEncoder(in).Encode(spec); err != nil {
		return nil, errors.Join(fmt.Errorf("start the second process: %w", err), s.stop())
	}
	return s, nil
}

// order gives an order and waits for its answer. When ctx ends the process is killed.
func (s *second) order(ctx context.Context, order string) (a rivalAnswer, err error) {
	stop := context.AfterFunc(ctx, func() { _ = s.cmd.Process.Kill() })
	defer stop()
	if _, err = io.WriteString(s.in, order+"\n"); err == nil && !s.answers.Scan() {
		err = errors.Join(s.answers.Err(), io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = json.Unmarshal(s.answers.Bytes(), &a)
	}
	if err == nil && a.Err != "" {
		err = errors.New(a.Err)
	}
	if err != nil {
		err = errors.Join(context.Cause(ctx), fmt.Errorf("second process: %s: %w", order, err))
	}
	return a, err
}

// stop ends the process and waits for it.
func (s *second) stop() error {
	kill := time.AfterFunc(stepLimit, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	_ = s.in.Close() // its end is what counts
	for s.answers.Scan() {
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("second process: %w: %s", err, strings.TrimSpace(s.errors.String()))
	}
	return nil
}
