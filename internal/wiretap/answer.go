package wiretap

import "github.com/twmb/franz-go/pkg/kmsg"

// FirstCode returns the first error code of an answer: its own, else that of the first group, topic or
// partition in it that has one. 0: it has none, or the kind of answer is not read.
func FirstCode(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return r.ErrorCode
	case *kmsg.SyncGroupResponse:
		return r.ErrorCode
	case *kmsg.HeartbeatResponse:
		return r.ErrorCode
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return r.ErrorCode
	case *kmsg.InitProducerIDResponse:
		return r.ErrorCode
	case *kmsg.AddOffsetsToTxnResponse:
		return r.ErrorCode
	case *kmsg.EndTxnResponse:
		return r.ErrorCode
	}
	first := int16(0)
	eachCode(resp, func(code int16) {
		if first == 0 {
			first = code
		}
	})
	return first
}

// eachCode goes over the codes of an answer that has one for each partition.
func eachCode(resp kmsg.Response, see func(code int16)) {
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				see(p.ErrorCode)
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				see(p.ErrorCode)
			}
		}
	case *kmsg.OffsetCommitResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				see(p.ErrorCode)
			}
		}
	case *kmsg.ListOffsetsResponse:
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				see(p.ErrorCode)
			}
		}
	case *kmsg.OffsetFetchResponse:
		for _, g := range r.Groups {
			see(g.ErrorCode)
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					see(p.ErrorCode)
				}
			}
		}
	case *kmsg.AddPartitionsToTxnResponse:
		classifyAddPartitions(r, func(code int16, _ string, _ [16]byte, _ int32) { see(code) })
	}
}

// TransactionalID returns the transactional id in a request, "" if it has none.
func TransactionalID(req kmsg.Request) string {
	var id *string
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		id = r.TransactionID
	case *kmsg.InitProducerIDRequest:
		id = r.TransactionalID
	case *kmsg.AddPartitionsToTxnRequest:
		return r.TransactionalID
	case *kmsg.AddOffsetsToTxnRequest:
		return r.TransactionalID
	case *kmsg.TxnOffsetCommitRequest:
		return r.TransactionalID
	case *kmsg.EndTxnRequest:
		return r.TransactionalID
	}
	if id == nil {
		return ""
	}
	return *id
}
