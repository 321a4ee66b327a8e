package member

import (
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/stream"
)

// input returns the facts of an input topic as they were at the start.
func (m *Member) input(topic string) wire.Facts {
	for _, facts := range m.cfg.Inputs {
		if facts.Topic == topic {
			return facts
		}
	}
	return wire.Facts{Topic: topic}
}

func (m *Member) topics() []string {
	topics := make([]string, len(m.cfg.Inputs))
	for i, facts := range m.cfg.Inputs {
		topics[i] = facts.Topic
	}
	return topics
}

// progress returns the partition that the snapshots and progress records of an input partition go to.
// Each input partition has one of its own, those of several inputs one after the other: two owners that
// shared one would wait for each other's open transactions in every restore.
func (m *Member) progress(p stream.Partition) stream.Partition {
	before := int32(0)
	for _, facts := range m.cfg.Inputs {
		if facts.Topic == p.Topic {
			break
		}
		before += facts.Partitions
	}
	return stream.Partition{Topic: m.cfg.Snapshots.Topic, Partition: before + p.Partition}
}

// outputs returns how the owner of an input partition writes to the output topics.
func (m *Member) outputs(p stream.Partition) map[string]fence.Output {
	out := make(map[string]fence.Output, len(m.cfg.Outputs))
	for topic, o := range m.cfg.Outputs {
		described := fence.Output{MaxRecordBytes: o.MaxRecordBytes}
		if o.Placement == AsRead && o.Partitions > 0 {
			partition := p.Partition % o.Partitions
			described.Partition = &partition
		}
		out[topic] = described
	}
	return out
}
