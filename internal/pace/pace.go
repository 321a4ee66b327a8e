// Package pace learns how much fits into one transaction, from those that ran out of time (R27). It is pure.
//
// What writes slowly does so for many reasons: a quota, a narrow link, replicas that lag. None of them says how
// much would have fitted, and a batch that did not will not the next time either:
//
//  1. A batch of 4 MiB waits, and the brokers take 60 kB a second. Its transaction times out after 30 s.
//  2. The same batch goes again, for it must not be lost. It times out after 30 s.
//
// So the next one is half as large, down to what cannot be made smaller, and grows again by a quarter at a time
// while what it has takes less than half of the time there is.
package pace

import "time"

// Pace is the bound of one partition. The zero value has learned nothing. It is for one goroutine at a time.
type Pace struct {
	most  int64 // bytes of a batch, 0: no bound was learned
	stuck int   // in a row, of what cannot be made smaller
}

// Limit returns the bound for a batch whose configured one is full, 0: none. It is 0 for none.
func (p *Pace) Limit(full int64) int64 {
	if p.most > 0 && (full <= 0 || p.most < full) {
		return p.most
	}
	return full
}

// Learned returns the bound that was learned, 0 if there is none.
func (p *Pace) Learned() int64 { return p.most }

// RanOut tells that a batch of so many bytes ran out of time. alone: it cannot be made smaller. It returns how
// often in a row, with no success between, that has been so.
func (p *Pace) RanOut(bytes int64, alone bool) (stuck int) {
	if p.most > 0 {
		bytes = min(bytes, p.most)
	}
	p.most = max(bytes/2, 1)
	if alone {
		p.stuck++
	}
	return p.stuck
}

// Anew begins the count of what cannot be made smaller anew.
func (p *Pace) Anew() { p.stuck = 0 }

// Wrote tells that a batch of so many bytes was written in a part of the time that it had. full is the
// configured bound, at which what was learned is forgotten.
func (p *Pace) Wrote(bytes int64, took, had time.Duration, full int64) {
	p.stuck = 0
	if p.most == 0 || 2*bytes < p.most || took > had/2 { // it says nothing about more, or says that more is too much
		return
	}
	p.most = max(p.most, bytes)
	p.most += p.most/4 + 1
	if full > 0 && p.most >= full {
		p.most = 0
	}
}
