package demo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// Event is one record of the input: a learner finished a lesson.
type Event struct {
	Event   int64  `json:"event"` // unique, from 1 in the order of production
	Learner string `json:"learner"`
	Lesson  int    `json:"lesson"` // within the course, from 1
	Of      int    `json:"of"`     // lessons of the course: the learner's state ends with that many
	Minutes int64  `json:"minutes"`
}

// graduates reports whether it is the course's last lesson.
func (e Event) graduates() bool { return e.Lesson == e.Of }

func (e Event) encode() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // a struct of numbers and strings has no value that cannot be encoded
	}
	return b
}

// The shape of the input. One learner in four takes short courses, so that states are deleted all the
// time; the others take courses that outlast a run, so that a damage that was done stays to be seen.
const (
	learners          = 256
	shortEvery        = 4
	shortMin          = 6
	shortMax          = 12
	longMin           = 120
	longMax           = 200
	minutesMax        = 45
	lessonsPerPersist = 3 // each third lesson of a course is saved at once
)

// source makes the events of one seed: the same seed gives the same events.
type source struct {
	random *rand.Rand
	last   int64
	lesson [learners]int
	length [learners]int
}

func newSource(seed uint64) *source {
	return &source{random: rand.New(rand.NewPCG(seed, 0x686f6c6466617374))}
}

// next returns the next event. A learner who has graduated begins another course.
func (s *source) next() Event {
	n := s.random.IntN(learners)
	if s.length[n] == 0 {
		least, most := longMin, longMax
		if !takesLong(learnerName(n)) {
			least, most = shortMin, shortMax
		}
		s.length[n] = least + s.random.IntN(most-least+1)
	}
	s.last++
	s.lesson[n]++
	e := Event{
		Event: s.last, Learner: learnerName(n), Lesson: s.lesson[n], Of: s.length[n],
		Minutes: 1 + s.random.Int64N(minutesMax),
	}
	if e.graduates() {
		s.lesson[n], s.length[n] = 0, 0
	}
	return e
}

func learnerName(n int) string { return fmt.Sprintf("learner-%03d", n) }

// takesLong reports whether the learner of that name takes long courses.
func takesLong(name string) bool {
	var n int
	_, err := fmt.Sscanf(name, "learner-%d", &n)
	return err == nil && n%shortEvery != 0
}
