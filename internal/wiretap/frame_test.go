package wiretap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("me"))

// answerFrame encodes a response as a broker does.
func answerFrame(id int32, resp kmsg.Response) []byte {
	frame := kbin.AppendInt32(make([]byte, 4), id)
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		frame = append(frame, 0)
	}
	frame = resp.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

func TestEveryRequestAndAnswerDecodes(t *testing.T) {
	t.Parallel()
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		want := kmsg.RequestForKey(key)
		if want == nil || key == int16(kmsg.ControlledShutdown) { // between brokers; version 0 has a header of its own
			continue
		}
		for v := int16(0); v <= want.MaxVersion(); v++ {
			want := kmsg.RequestForKey(key)
			want.SetVersion(v)
			frame, err := readFrame(bytes.NewReader(formatter.AppendRequest(nil, want, 7)))
			if err != nil {
				t.Fatal(err)
			}
			r, err := parseRequest(frame, 3, "up")
			if err != nil {
				t.Fatalf("%s v%d: %v", kmsg.NameForKey(key), v, err)
			}
			if r.Key != key || r.Version != v || r.CorrelationID != 7 || r.ClientID != "me" || r.Conn != 3 {
				t.Errorf("%s v%d: header is %+v", kmsg.NameForKey(key), v, r)
			}
			got, err := r.Decoded()
			if err != nil {
				t.Errorf("%s v%d: %v", kmsg.NameForKey(key), v, err)
				continue
			}
			if !bytes.Equal(got.AppendTo(nil), want.AppendTo(nil)) {
				t.Errorf("%s v%d: decoded %+v, want %+v", kmsg.NameForKey(key), v, got, want)
			}
			answer := want.ResponseKind()
			resp, err := r.decodeResponse(answerFrame(7, answer))
			if err != nil {
				t.Errorf("%s v%d answer: %v", kmsg.NameForKey(key), v, err)
			} else if resp.GetVersion() != v || !bytes.Equal(resp.AppendTo(nil), answer.AppendTo(nil)) {
				t.Errorf("%s v%d answer: decoded %+v", kmsg.NameForKey(key), v, resp)
			}
		}
	}
}

func TestContentSurvives(t *testing.T) {
	t.Parallel()
	for _, v := range []int16{3, 6} {
		want := kmsg.NewPtrTxnOffsetCommitRequest()
		want.SetVersion(v)
		want.TransactionalID, want.Group, want.MemberID, want.Generation = "id", "group", "member", 9
		r, err := parseRequest(formatter.AppendRequest(nil, want, 1), 1, "up")
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Decoded()
		if err != nil {
			t.Fatal(err)
		}
		c := got.(*kmsg.TxnOffsetCommitRequest)
		if c.TransactionalID != "id" || c.Group != "group" || c.MemberID != "member" || c.Generation != 9 {
			t.Errorf("v%d: decoded %+v", v, c)
		}
		if again, _ := r.Decoded(); again != got {
			t.Errorf("v%d: decoded twice", v)
		}
	}
}

func TestUnsupportedApiVersionsAnswerIsVersion0(t *testing.T) {
	t.Parallel()
	req := kmsg.NewPtrApiVersionsRequest()
	req.SetVersion(req.MaxVersion())
	r, err := parseRequest(formatter.AppendRequest(nil, req, 1), 1, "up")
	if err != nil {
		t.Fatal(err)
	}
	old := kmsg.NewPtrApiVersionsResponse()
	old.ErrorCode = kerr.UnsupportedVersion.Code
	resp, err := r.decodeResponse(answerFrame(1, old))
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.(*kmsg.ApiVersionsResponse); got.Version != 0 || got.ErrorCode != old.ErrorCode {
		t.Errorf("decoded %+v", got)
	}
}

func TestAnswered(t *testing.T) {
	t.Parallel()
	id := "a transactional id"
	for v := int16(0); v <= kmsg.NewPtrProduceRequest().MaxVersion(); v++ {
		for acks, want := range map[int16]bool{0: false, 1: true, -1: true} {
			req := kmsg.NewPtrProduceRequest()
			req.SetVersion(v)
			req.Acks, req.TransactionID = acks, &id
			r, err := parseRequest(formatter.AppendRequest(nil, req, 1), 1, "up")
			if err != nil {
				t.Fatal(err)
			}
			if got := r.answered(); got != want {
				t.Errorf("v%d acks %d: answered %t, want %t", v, acks, got, want)
			}
		}
	}
}

func TestReadFrameRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"end":       {nil, io.EOF},
		"cut short": {[]byte{0, 0, 0, 9, 1}, io.ErrUnexpectedEOF},
		"negative":  {[]byte{255, 255, 255, 255, 0, 0}, errNotKafka},
		"too small": {[]byte{0, 0, 0, 3, 1, 2, 3}, errNotKafka},
		"TLS hello": {[]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01}, errNotKafka},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readFrame(bytes.NewReader(c.in)); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestUnknownRequestIsAnError(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][2]int16{"key": {9000, 0}, "version": {int16(kmsg.EndTxn), 99}} {
		frame := make([]byte, 4)
		frame = kbin.AppendInt16(kbin.AppendInt16(frame, header[0]), header[1])
		frame = kbin.AppendNullableString(kbin.AppendInt32(frame, 1), nil)
		r, err := parseRequest(frame, 1, "up")
		if err != nil {
			t.Fatalf("%s: %v", name, err) // it is forwarded, so that the header has to be read
		}
		if _, err := r.Decoded(); err == nil {
			t.Errorf("%s: decoded", name)
		}
		if !r.answered() {
			t.Errorf("%s: counts as unanswered", name)
		}
	}
}

// stale returns an answer of each kind with code in it, and the version it is for.
func stale(code int16) map[string]kmsg.Response {
	commit := kmsg.NewPtrTxnOffsetCommitResponse()
	commit.Topics = []kmsg.TxnOffsetCommitResponseTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitResponseTopicPartition{{Partition: 2, ErrorCode: code}, {Partition: 3}}}}
	plain := kmsg.NewPtrOffsetCommitResponse()
	plain.Topics = []kmsg.OffsetCommitResponseTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitResponseTopicPartition{{Partition: 2, ErrorCode: code}}}}
	produce := kmsg.NewPtrProduceResponse()
	produce.Topics = []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: []kmsg.ProduceResponseTopicPartition{{Partition: 2, ErrorCode: code}}}}
	end := kmsg.NewPtrEndTxnResponse()
	end.ErrorCode = code
	offsets := kmsg.NewPtrAddOffsetsToTxnResponse()
	offsets.ErrorCode = code
	whole := kmsg.NewPtrAddPartitionsToTxnResponse()
	whole.ErrorCode = code
	topics := []kmsg.AddPartitionsToTxnResponseTransactionTopic{{Topic: "t", Partitions: []kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{{Partition: 2, ErrorCode: code}}}}
	batch := kmsg.NewPtrAddPartitionsToTxnResponse()
	batch.Transactions = []kmsg.AddPartitionsToTxnResponseTransaction{{TransactionalID: "id", Topics: topics}}
	single := kmsg.NewPtrAddPartitionsToTxnResponse()
	single.Topics = []kmsg.AddPartitionsToTxnResponseTopic{{Topic: "t", Partitions: []kmsg.AddPartitionsToTxnResponseTopicPartition{{Partition: 2, ErrorCode: code}}}}
	return map[string]kmsg.Response{
		"TxnOffsetCommit": commit, "OffsetCommit": plain, "Produce": produce, "EndTxn": end, "AddOffsetsToTxn": offsets,
		"AddPartitionsToTxn, whole": whole, "AddPartitionsToTxn, batch": batch, "AddPartitionsToTxn, single": single,
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, e := range staleErrors {
		for name, resp := range stale(e.Code) {
			got := Classify(Request{Key: resp.Key()}, resp)
			if len(got) != 1 || got[0].Err != e {
				t.Errorf("%s with %s: %v", name, e.Message, got)
				continue
			}
			hasPartition := got[0].Partition == 2 && got[0].Topic == "t"
			if got[0].Partition >= 0 && !hasPartition {
				t.Errorf("%s: %+v", name, got[0])
			}
		}
	}
	for _, code := range []int16{0, kerr.ConcurrentTransactions.Code, kerr.RebalanceInProgress.Code, kerr.NotLeaderForPartition.Code} {
		for name, resp := range stale(code) {
			if got := Classify(Request{Key: resp.Key()}, resp); len(got) != 0 {
				t.Errorf("%s with code %d: %v", name, code, got)
			}
		}
	}
	join := kmsg.NewPtrJoinGroupResponse()
	join.ErrorCode = kerr.UnknownMemberID.Code
	if got := Classify(Request{Key: join.Key()}, join); len(got) != 0 {
		t.Errorf("a refused JoinGroup writes nothing, and counts as %v", got)
	}
	if !reflect.DeepEqual(Stale(kerr.ProducerFenced.Code), kerr.ProducerFenced) || Stale(0) != nil {
		t.Error("Stale")
	}
}

func FuzzParseRequest(f *testing.F) {
	for _, key := range writeKeys {
		f.Add(formatter.AppendRequest(nil, kmsg.RequestForKey(int16(key)), 1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := readFrame(bytes.NewReader(data))
		if err != nil {
			return
		}
		r, err := parseRequest(frame, 1, "up")
		if err != nil {
			return
		}
		r.answered()
		if req, err := r.Decoded(); (req == nil) == (err == nil) {
			t.Errorf("request %v, error %v", req, err)
		}
	})
}

// FuzzAnswers gives the proxy whatever may come back from what it believes to be a broker.
func FuzzAnswers(f *testing.F) {
	for _, key := range writeKeys {
		req := kmsg.RequestForKey(int16(key))
		req.SetVersion(req.MaxVersion())
		f.Add(int16(key), req.MaxVersion(), req.ResponseKind().AppendTo(nil))
	}
	f.Add(int16(kmsg.ApiVersions), int16(4), []byte{0, 35})
	f.Fuzz(func(t *testing.T, key, version int16, answer []byte) {
		frame, err := readFrame(bytes.NewReader(append([]byte{0, 0, byte((len(answer) + 4) >> 8), byte(len(answer) + 4), 0, 0, 0, 0}, answer...)))
		if err != nil {
			return
		}
		r := Request{Key: key, Version: version}
		resp, err := r.decodeResponse(frame)
		if (resp == nil) == (err == nil) {
			t.Fatalf("answer %v, error %v", resp, err)
		}
		if err == nil {
			Classify(r, resp)
		}
		if _, err := r.answeredWith(frame, refuse(kerr.ProducerFenced.Code)); err == nil && resp == nil {
			t.Error("an answer that cannot be read was answered with a refusal")
		}
	})
}
