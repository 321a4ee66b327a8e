package demo

import (
	"slices"
	"testing"
)

func TestSourceIsOfItsSeed(t *testing.T) {
	t.Parallel()
	take := func(seed uint64) (events []Event) {
		s := newSource(seed)
		for range 5000 {
			events = append(events, s.next())
		}
		return events
	}
	one := take(1)
	if !slices.Equal(one, take(1)) {
		t.Error("the same seed gave other events")
	}
	if slices.Equal(one, take(2)) {
		t.Error("another seed gave the same events")
	}
}

func TestSourceMakesCourses(t *testing.T) {
	t.Parallel()
	s := newSource(3)
	lesson := map[string]int{}
	graduated := 0
	for i := range int64(20000) {
		e := s.next()
		if e.Event != i+1 {
			t.Fatalf("event %d has number %d", i+1, e.Event)
		}
		if e.Lesson != lesson[e.Learner]+1 || e.Minutes < 1 {
			t.Fatalf("got %+v after lesson %d", e, lesson[e.Learner])
		}
		lesson[e.Learner] = e.Lesson
		least, most := longMin, longMax
		if !takesLong(e.Learner) {
			least, most = shortMin, shortMax
		}
		if e.Lesson > most || e.graduates() && e.Lesson < least {
			t.Fatalf("got %+v, where courses have %d to %d lessons", e, least, most)
		}
		if e.graduates() {
			graduated++
			lesson[e.Learner] = 0
		}
	}
	if graduated < 300 || len(lesson) != learners {
		t.Errorf("%d graduations of %d learners are too few to test a delete", graduated, len(lesson))
	}
}

func TestFindNamesTheSchedules(t *testing.T) {
	t.Parallel()
	for _, s := range Schedules() {
		if got, err := Find(s.Name); err != nil || got.Name != s.Name || len(s.Without) == 0 || s.About == "" || s.Rule == "" {
			t.Errorf("%s: %+v, %v", s.Name, got, err)
		}
	}
	if _, err := Find("luck"); err == nil {
		t.Error("an unknown name was found")
	}
}
