package stream

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// In JSON each field has one type: no duration without a unit, no null, and nothing that only sometimes is an object.
func TestStatusJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := Status{
		Group: "ledger", MemberID: "m-1", Generation: 3, Running: true,
		Throttled: ThrottleStatus{Broker: 1, Host: "kafka", Until: at},
		Stopped:   StatusError{At: at, Cause: "fold", Error: "boom"},
		Partitions: []PartitionStatus{{
			Topic: "payments", Partition: 2, Ownership: 1, Phase: PhaseRestoring, Next: -1, Committed: 9, StableEnd: -1, Lag: -1, OldestHold: -1,
			Restore: RestoreStatus{Position: 4, Target: 8, Records: 4, Bytes: 100},
		}},
	}
	const want = `{"group":"ledger","member_id":"m-1","generation":3,"running":true,"ready":false,` +
		`"partitions":[{"topic":"payments","partition":2,"ownership":1,"phase":"restoring","next":-1,"committed":9,"stable_end":-1,"lag":-1,` +
		`"keys":0,"dirty_keys":0,"oldest_hold":-1,"restore":{"position":4,"target":8,"records":4,"bytes":100}}],` +
		`"throttled":{"broker":1,"host":"kafka","until":"2026-01-02T03:04:05Z"},` +
		`"stopped":{"at":"2026-01-02T03:04:05Z","cause":"fold","error":"boom"}}`
	got, err := json.Marshal(s)
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	var again Status
	if err := json.Unmarshal(got, &again); err != nil || !reflect.DeepEqual(again, s) {
		t.Errorf("it comes back as %+v, %v", again, err)
	}
	for _, kind := range []reflect.Type{reflect.TypeFor[Status](), reflect.TypeFor[PartitionStatus](), reflect.TypeFor[RestoreStatus](), reflect.TypeFor[ThrottleStatus](), reflect.TypeFor[StatusError]()} {
		for i := range kind.NumField() {
			f := kind.Field(i)
			if k := f.Type.Kind(); f.Type == reflect.TypeFor[time.Duration]() || k == reflect.Pointer || k == reflect.Interface || k == reflect.Map || f.Tag.Get("json") == "" {
				t.Errorf("%s.%s is a %s with the name %q", kind, f.Name, f.Type, f.Tag.Get("json"))
			}
		}
	}
}
