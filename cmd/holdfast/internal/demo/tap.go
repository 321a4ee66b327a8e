package demo

import (
	"crypto/rand"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/holdfast-go/holdfast/internal/wiretap"
)

// tap is the proxy between one member and the brokers. It stays after the member has died, so that
// what the broker still answers is counted.
type tap struct {
	*wiretap.Cluster
	token    string // of the member: to others of this machine the tap is closed
	refusals *wiretap.Refusals

	mu    sync.Mutex
	ids   map[string]int32 // transactional id → input partition that its last transaction committed
	stale []span           // of refusals that were answers to a stale writer; the last one may be open
	dead  bool
}

// span is a range of refusals by their number. An open one has to == spanOpen.
type span struct{ from, to int }

const spanOpen = -1

// newTap makes the taps before all brokers. dial reaches a broker and does the TLS handshake if there
// is one to do: the members come to the tap in plaintext.
func newTap(brokers []string, dial wiretap.Dial) (*tap, error) {
	token := rand.Text()
	c, err := wiretap.NewClusterDialing(brokers, token, dial)
	if err != nil {
		return nil, err
	}
	t := &tap{Cluster: c, token: token, refusals: wiretap.WatchRefusals(c), ids: map[string]int32{}}
	c.OnRequest(t.learn)
	return t, nil
}

// outlived says that the member behind the tap is a stale writer from here on: it is stopped, dead, or
// kept out of its group. A refusal before that is one of a member that is alive and in its rights, as
// during any rebalance.
func (t *tap) outlived(dead bool) {
	n := t.refusals.Count()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead = t.dead || dead
	if len(t.stale) == 0 || t.stale[len(t.stale)-1].to != spanOpen {
		t.stale = append(t.stale, span{from: n, to: spanOpen})
	}
}

// granted says that the member was granted a partition: if it was stale, it has let go of what it held
// and is in its rights again. The report of a dead member may be read after its death and says nothing.
func (t *tap) granted() {
	n := t.refusals.Count()
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := len(t.stale) - 1; last >= 0 && !t.dead && t.stale[last].to == spanOpen {
		t.stale[last].to = n
	}
}

// split tells the refusals of a stale writer from those of a member in its rights.
func (t *tap) split() (stale, rightful []wiretap.Refusal) {
	all := t.refusals.All()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range all {
		if slices.ContainsFunc(t.stale, func(s span) bool { return i >= s.from && (s.to == spanOpen || i < s.to) }) {
			stale = append(stale, r)
		} else {
			rightful = append(rightful, r)
		}
	}
	return stale, rightful
}

// learn notes which transactional id commits for which partition.
func (t *tap) learn(r wiretap.Request) {
	if r.Key != int16(kmsg.TxnOffsetCommit) {
		return
	}
	req, err := r.Decoded()
	if err != nil {
		return // the tap reports frames that it does not understand
	}
	if commit, ok := req.(*kmsg.TxnOffsetCommitRequest); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ids[commit.TransactionalID] = committedPartition(r)
	}
}

// endedPartition is the partition whose transaction an EndTxn request ends, -1 if it is not known.
func (t *tap) endedPartition(r wiretap.Request) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.ids[transaction(r)]; ok {
		return p
	}
	return -1
}

// topic names a topic as requests do, by name or by id.
type topic struct {
	name string
	id   [16]byte
}

func (t topic) is(name string, id [16]byte) bool { return name == t.name || name == "" && id == t.id }

// producing matches a Produce request that has records for the topic.
func producing(t topic) wiretap.Match {
	return wiretap.All(wiretap.Keys(kmsg.Produce), func(r wiretap.Request) bool {
		return len(producedPartitions(r, t)) > 0
	})
}

// producedKeys are the keys of the records that a Produce request has for the topic: the first one of
// each batch, which is all that is asked for.
func producedKeys(r wiretap.Request, t topic) (keys []string) {
	req, err := r.Decoded()
	if err != nil {
		return nil
	}
	produce, ok := req.(*kmsg.ProduceRequest)
	if !ok {
		return nil
	}
	for _, rt := range produce.Topics {
		for _, p := range rt.Partitions {
			if !t.is(rt.Topic, rt.TopicID) {
				continue
			}
			if key, ok := firstKey(p.Records); ok {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// codecBits are those of a batch's attributes that name its compression.
const codecBits = 0x7

// firstKey returns the key of the first record of a batch.
func firstKey(bytes []byte) (string, bool) {
	var batch kmsg.RecordBatch
	if batch.ReadFrom(bytes) != nil {
		return "", false
	}
	records, err := kgo.DefaultDecompressor().Decompress(batch.Records, kgo.CompressionCodecType(batch.Attributes&codecBits))
	if err != nil {
		return "", false
	}
	var first kmsg.Record
	if first.ReadFrom(records) != nil {
		return "", false
	}
	return string(first.Key), true
}

// producedPartitions are the partitions of the topic that a Produce request has records for.
func producedPartitions(r wiretap.Request, t topic) (partitions []int32) {
	req, err := r.Decoded()
	if err != nil {
		return nil // the tap reports frames that it does not understand
	}
	produce, ok := req.(*kmsg.ProduceRequest)
	if !ok {
		return nil
	}
	for _, rt := range produce.Topics {
		if !t.is(rt.Topic, rt.TopicID) {
			continue
		}
		for _, p := range rt.Partitions {
			partitions = append(partitions, p.Partition)
		}
	}
	return partitions
}

// committedPartition is the input partition that a TxnOffsetCommit request is for, -1 for any other
// request.
func committedPartition(r wiretap.Request) int32 {
	req, err := r.Decoded()
	if err != nil {
		return -1
	}
	commit, ok := req.(*kmsg.TxnOffsetCommitRequest)
	if !ok {
		return -1
	}
	for _, t := range commit.Topics {
		for _, p := range t.Partitions {
			return p.Partition
		}
	}
	return -1
}

// transaction is the transactional id that an EndTxn request ends, "" for any other request.
func transaction(r wiretap.Request) string {
	req, err := r.Decoded()
	if err != nil {
		return ""
	}
	if end, ok := req.(*kmsg.EndTxnRequest); ok {
		return end.TransactionalID
	}
	return ""
}
