package replay

import (
	"math/rand/v2"
	"time"

	"github.com/warmroute/warmroute/internal/workload"
)

// soon is how long a client that leaves soon stays, at most.
const soon = 2 * time.Second

// recalled is how many of the latest requests foreign traffic is taken from.
const recalled = 256

// noise draws what goes wrong.
type noise struct {
	Noise
	rng    *rand.Rand
	recent []workload.Request // a ring once it is full
	next   int
}

// plan is what will go wrong with one request.
type plan struct {
	leaveAfter   time.Duration // 0: the client does not leave by the clock
	leaveAtToken int           // 0: nor by the answer
	reportZero   bool
}

func newNoise(n Noise, seed uint64) noise {
	return noise{Noise: n, rng: rand.New(rand.NewPCG(seed, 0x6e6f697365))}
}

// hit draws whether something of a given share happens.
func (n *noise) hit(share float64) bool { return share > 0 && n.rng.Float64() < share }

// plan draws what will go wrong with a request; it may let its content diverge.
func (n *noise) plan(ask *workload.Request) plan {
	var p plan
	if n.hit(n.Diverging) && ask.DivergesAt == 0 {
		ask.DivergesAt = divergingAt
	}
	if n.hit(n.Aborts) {
		if n.rng.IntN(2) == 0 {
			p.leaveAfter = 1 + time.Duration(n.rng.Float64()*float64(soon))
		} else {
			p.leaveAtToken = 1 + n.rng.IntN(max(ask.OutputTokens-1, 1))
		}
	}
	p.reportZero = n.hit(n.ReportZero)
	return p
}

// remember keeps a request for foreign traffic to repeat.
func (n *noise) remember(ask *workload.Request) {
	if n.Foreign == 0 {
		return
	}
	if len(n.recent) < recalled {
		n.recent = append(n.recent, *ask)
		return
	}
	n.recent[n.next] = *ask
	n.next = (n.next + 1) % recalled
}

// recall returns a late request to repeat; ok is false before there is any.
func (n *noise) recall() (ask workload.Request, ok bool) {
	if len(n.recent) == 0 {
		return workload.Request{}, false
	}
	ask = n.recent[n.rng.IntN(len(n.recent))]
	ask.Answer = 0
	return ask, true
}

// other names content that nothing else has.
func (n *noise) other() uint64 { return n.rng.Uint64() }
