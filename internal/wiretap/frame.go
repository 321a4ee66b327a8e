package wiretap

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxFrameBytes is above socket.request.max.bytes of any broker that a test runs, and below what the
// first bytes of a TLS handshake look like as a length.
const maxFrameBytes = 256 << 20

// readFrame reads one frame and returns it with its length prefix, ready to be written again.
func readFrame(r io.Reader) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(prefix[:]))
	if n < 4 || n > maxFrameBytes {
		return nil, fmt.Errorf("%w: frame length %d", errNotKafka, n)
	}
	frame := make([]byte, 4+int(n))
	copy(frame, prefix[:])
	if _, err := io.ReadFull(r, frame[4:]); err != nil {
		return nil, err
	}
	return frame, nil
}

// Request is one request that a client has sent.
type Request struct {
	Conn          uint64 // number of the connection, in the order they were accepted
	Upstream      string // the broker's address
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string
	Time          time.Time // when the proxy had read it whole

	body *body
}

// body is the part that is decoded at most once, and only if somebody asks.
type body struct {
	raw  []byte
	once sync.Once
	req  kmsg.Request
	err  error
}

// Name returns the request's name, as "JoinGroup".
func (r Request) Name() string { return kmsg.NameForKey(r.Key) }

// Decoded returns the request's content, which all callers share: it must not be changed. The error
// says that this version of kmsg does not know the key or version, or that the bytes are damaged.
func (r Request) Decoded() (kmsg.Request, error) {
	r.body.once.Do(func() { r.body.req, r.body.err = r.decode() })
	return r.body.req, r.body.err
}

func (r Request) decode() (kmsg.Request, error) {
	req, err := r.blank()
	if err != nil {
		return nil, err
	}
	b := kbin.Reader{Src: r.body.raw}
	if req.IsFlexible() {
		kmsg.SkipTags(&b)
	}
	if !b.Ok() {
		return nil, fmt.Errorf("wiretap: %s v%d: header is cut short", r.Name(), r.Version)
	}
	if err := req.ReadFrom(b.Src); err != nil {
		return nil, fmt.Errorf("wiretap: %s v%d: %w", r.Name(), r.Version, err)
	}
	return req, nil
}

// blank returns an empty request of the key and version.
func (r Request) blank() (kmsg.Request, error) {
	req := kmsg.RequestForKey(r.Key)
	if req == nil || r.Version < 0 || r.Version > req.MaxVersion() {
		return nil, fmt.Errorf("wiretap: request key %d version %d is not known", r.Key, r.Version)
	}
	req.SetVersion(r.Version)
	return req, nil
}

// parseRequest reads the header of a request frame. The client id has the same encoding in flexible
// and older headers; the tags that follow it in flexible ones are left to decode.
func parseRequest(frame []byte, conn uint64, upstream string) (Request, error) {
	b := kbin.Reader{Src: frame[4:]}
	r := Request{Conn: conn, Upstream: upstream, Time: time.Now()}
	r.Key, r.Version, r.CorrelationID = b.Int16(), b.Int16(), b.Int32()
	if id := b.NullableString(); id != nil {
		r.ClientID = *id
	}
	if !b.Ok() || r.Key < 0 {
		return r, fmt.Errorf("%w: request header", errNotKafka)
	}
	r.body = &body{raw: b.Src}
	return r, nil
}

// answered reports whether the broker answers the request. It does not answer a produce request with
// acks=0. Only the front of the body is read: a produce request may be large.
func (r Request) answered() bool {
	if r.Key != int16(kmsg.Produce) {
		return true
	}
	req, err := r.blank()
	if err != nil {
		return true
	}
	b := kbin.Reader{Src: r.body.raw}
	switch {
	case req.IsFlexible():
		kmsg.SkipTags(&b)
		b.CompactNullableString()
	case r.Version >= 3:
		b.NullableString()
	}
	acks := b.Int16()
	return !b.Ok() || acks != 0
}

// decodeResponse decodes a response frame to r.
func (r Request) decodeResponse(frame []byte) (kmsg.Response, error) {
	req, err := r.blank()
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	b := kbin.Reader{Src: frame[8:]} // after length and correlation id
	isAPIVersions := r.Key == int16(kmsg.ApiVersions)
	// ApiVersions always has the old header, as the client does not know yet what the broker speaks.
	if req.IsFlexible() && !isAPIVersions {
		kmsg.SkipTags(&b)
	}
	if !b.Ok() {
		return nil, fmt.Errorf("wiretap: %s v%d answer: header is cut short", r.Name(), r.Version)
	}
	// A broker that does not know the version of ApiVersions answers in version 0.
	if isAPIVersions && len(b.Src) >= 2 && int16(binary.BigEndian.Uint16(b.Src)) == kerr.UnsupportedVersion.Code {
		resp.SetVersion(0)
	}
	if err := resp.ReadFrom(b.Src); err != nil {
		return nil, fmt.Errorf("wiretap: %s v%d answer: %w", r.Name(), r.Version, err)
	}
	return resp, nil
}

// answeredWith returns the frame of an answer that change has changed.
func (r Request) answeredWith(frame []byte, change func(kmsg.Response) error) ([]byte, error) {
	resp, err := r.decodeResponse(frame)
	if err != nil {
		return nil, err
	}
	if err := change(resp); err != nil {
		return nil, err
	}
	out := append(make([]byte, 4, len(frame)+8), frame[4:8]...)
	if resp.IsFlexible() {
		out = append(out, 0) // no tags
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

// refuse puts an error in place of the one that an answer has. Only answers with one error for all that was
// asked have one place to put it.
func refuse(code int16) func(kmsg.Response) error {
	return func(resp kmsg.Response) error {
		switch resp := resp.(type) {
		case *kmsg.EndTxnResponse:
			resp.ErrorCode = code
		case *kmsg.AddOffsetsToTxnResponse:
			resp.ErrorCode = code
		case *kmsg.InitProducerIDResponse:
			resp.ErrorCode = code
		case *kmsg.HeartbeatResponse:
			resp.ErrorCode = code
		default:
			return fmt.Errorf("wiretap: the answer to %s has no error as a whole", kmsg.NameForKey(resp.Key()))
		}
		return nil
	}
}
