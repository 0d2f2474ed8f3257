package rpc

import (
	"fmt"
	"sync"
	"time"

	"github.com/warmroute/warmroute/api/intake"
	"github.com/warmroute/warmroute/router"
)

// holdings bounds what each owner of a key holds by decisions that are not reported: how many
// they are, and how many of a pool's slots they take. A decision costs its caller nothing until it
// is reported, so one key could else keep all slots from all others. Its methods may be called at
// the same time.
type holdings struct {
	most   int     // decisions of one owner
	part   float64 // of a pool's slots that one owner may hold
	others func(owner, pool string) bool

	mu     sync.Mutex
	owners map[string]*holding // of those who hold anything
}

// holding is what one owner holds.
type holding struct {
	decisions int
	slots     map[*router.Pool]int
}

// newHoldings returns the bounds of so many decisions in all.
func newHoldings(decisions int, part float64, others func(owner, pool string) bool) *holdings {
	return &holdings{most: intake.ShareOf(decisions, part), part: part, others: others, owners: make(map[string]*holding)}
}

// take lets an owner hold one more decision, with n of a pool's slots, or says why not. Nobody,
// which is everybody where there are no keys, is not bounded. Who holds none of a pool's slots may
// take any number: else what asks for more answers than its share could never be served.
func (h *holdings) take(owner string, pool *router.Pool, n int) error {
	if owner == "" {
		return nil
	}
	slots := pool.Slots(time.Now())
	share := intake.ShareOf(slots, h.part)
	h.mu.Lock()
	defer h.mu.Unlock()
	has := h.owners[owner]
	if has == nil {
		has = &holding{slots: make(map[*router.Pool]int)}
	}
	switch held := has.slots[pool]; {
	case has.decisions >= h.most:
		return &limitError{fmt.Sprintf("%d decisions of yours are open already, which is your part of all (limits.queue_share): report what became of them", has.decisions), time.Second}
	case slots > 0 && held > 0 && held+n > share && h.others(owner, pool.Name()):
		return &limitError{fmt.Sprintf("decisions of yours that are open hold %d slots of pool %q already, and your part of its %d is %d (limits.queue_share): report what became of them", held, pool.Name(), slots, share), time.Second}
	}
	has.decisions++
	has.slots[pool] += n
	h.owners[owner] = has
	return nil
}

// give gives back what take let an owner hold.
func (h *holdings) give(owner string, pool *router.Pool, n int) {
	if owner == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	has := h.owners[owner]
	if has.slots[pool] -= n; has.slots[pool] == 0 {
		delete(has.slots, pool)
	}
	if has.decisions--; has.decisions == 0 {
		delete(h.owners, owner)
	}
}
