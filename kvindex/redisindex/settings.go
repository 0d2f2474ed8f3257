package redisindex

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// settingsEvery is how often a router looks what was set elsewhere. What is set here is
	// written at the keeper's next turn.
	settingsEvery = time.Second
	// settingsTTL is how long settings stay of a fleet that is gone. Unlike blocks they are
	// what somebody wished, so a fleet that is off for some days finds them again.
	settingsTTL = 30 * 24 * time.Hour
	// settingVersion begins every setting in Redis. Those of other versions are left alone.
	settingVersion = "1"
	// maxSettings bounds what is read of one pool, the latest; maxSetting the length of a
	// name and of a value, in bytes.
	maxSettings = 1000
	maxSetting  = 256
)

// settings are what operators have set in pools while routers run, by name. For each name
// the latest counts, by fleet time; between two of one moment the greater value. Whatever a
// router knows it writes to where that is missing, so settings outlive a Redis that is
// emptied as long as one router runs.
type settings struct {
	pools []string
	heard func(pool string)

	mu    sync.Mutex // never held while anything waits
	known map[string]map[string]setting
	fresh map[string]map[string]change // set here, and not yet part of known

	renewed map[string]*renewal // of the keys; the keeper's
}

// setting is a value and when it was set.
type setting struct {
	value string
	at    moment
}

// after reports whether a setting counts where the other is known.
func (s setting) after(o setting) bool {
	return s.at > o.at || s.at == o.at && s.value > o.value
}

// change is a value that was set by this machine's clock.
type change struct {
	value string
	at    time.Time
}

// ShareSettings has the settings of pools shared, and heard called, not for long and not at
// the same time, after another router has set something in one of them. It is called before
// [Index.Run], if at all.
func (x *Index) ShareSettings(pools []string, heard func(pool string)) {
	x.settings.pools, x.settings.heard = slices.Clone(pools), heard
}

// Set sets something in a pool for all routers, from now on for those that start later
// too. It does not wait. Names and values are short texts; an empty value says that nothing
// is set any more.
func (x *Index) Set(pool string, values map[string]string) {
	s := &x.settings
	s.mu.Lock()
	defer s.mu.Unlock()
	now := x.config.Now()
	for name, value := range values {
		put(&s.fresh, pool, name, change{value, now})
	}
}

// Settings returns what is set in a pool, as far as this router knows.
func (x *Index) Settings(pool string) map[string]string {
	s := &x.settings
	s.mu.Lock()
	defer s.mu.Unlock()
	values := make(map[string]string)
	for name, one := range s.known[pool] {
		values[name] = one.value
	}
	for name, one := range s.fresh[pool] {
		values[name] = one.value
	}
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
	return values
}

// put sets an element of a map of maps.
func put[T any](all *map[string]map[string]T, pool, name string, value T) {
	if *all == nil {
		*all = make(map[string]map[string]T)
	}
	if (*all)[pool] == nil {
		(*all)[pool] = make(map[string]T)
	}
	(*all)[pool][name] = value
}

// settle gives what was set here its moment: later than what it replaces, of which whoever
// set it knew, and not that of another setting. It reports whether there was anything.
func (s *settings) settle(clock conversion) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := len(s.fresh) > 0
	for pool, changes := range s.fresh {
		taken := make(map[moment]bool)
		for _, one := range s.known[pool] {
			taken[one.at] = true
		}
		for name, one := range changes {
			at := max(clock.fleetTime(one.at), s.known[pool][name].at+1)
			for taken[at] {
				at++
			}
			taken[at] = true
			put(&s.known, pool, name, setting{one.value, at})
		}
	}
	s.fresh = nil
	return changed
}

// shift moves what is known, after fleet time has jumped.
func (s *settings) shift(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.known {
		for name, one := range all {
			one.at = max(one.at.after(by), 1)
			all[name] = one
		}
	}
}

// learn takes in what Redis has of a pool. It returns what is missing there, what is there
// and does not count any more, and whether anything is news.
func (s *settings) learn(pool string, found []redis.Z, now moment) (missing map[string]setting, stale []moment, news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[string]setting)
	for _, z := range found {
		name, value, ok := parseSetting(z.Member)
		one := setting{value, momentOf(z.Score)}
		if !ok || one.at == 0 {
			continue
		}
		if one.at > now.after(future) { // else it would count for ever
			stale = append(stale, one.at)
			continue
		}
		before, several := there[name]
		if several && !one.after(before) {
			stale = append(stale, one.at)
			continue
		}
		if several {
			stale = append(stale, before.at)
		}
		there[name] = one
	}
	for name, one := range there {
		known := s.known[pool][name]
		switch {
		case one.after(known):
			put(&s.known, pool, name, one)
			news = true
		case known.after(one):
			stale = append(stale, one.at)
		}
	}
	missing = make(map[string]setting)
	for name, one := range s.known[pool] {
		if there[name] != one {
			missing[name] = one
		}
	}
	return missing, stale, news
}

// member is a setting as it is kept.
func (s setting) member(name string) string { return settingVersion + " " + name + " " + s.value }

// parseSetting reads a member; ok is false where it is none of this version.
func parseSetting(member any) (name, value string, ok bool) {
	text, _ := member.(string)
	version, rest, _ := strings.Cut(text, " ")
	name, value, ok = strings.Cut(rest, " ")
	return name, value, ok && version == settingVersion && name != "" && len(name) <= maxSetting && len(value) <= maxSetting
}

// shareSettings looks at the settings of all pools and writes what is missing. It is done again at
// the keeper's next turn when it fails.
func (k *keeper) shareSettings(ctx context.Context, now time.Time) {
	s := &k.settings
	clock, ok := k.clock.conversion()
	if !ok || len(s.pools) == 0 {
		return
	}
	if !s.settle(clock) && now.Sub(k.settingsAt) < settingsEvery {
		return
	}
	found := make([]*redis.ZSliceCmd, len(s.pools))
	_, err := k.store.pipeline(ctx, func(p redis.Pipeliner) {
		for i, pool := range s.pools {
			found[i] = p.ZRevRangeWithScores(ctx, k.names.settings(pool), 0, maxSettings-1)
		}
	})
	if err != nil {
		return
	}
	k.settingsAt = now
	for i, pool := range s.pools {
		if k.usable(ctx, k.names.settings(pool), found[i].Err()) != nil {
			continue
		}
		missing, stale, news := s.learn(pool, found[i].Val(), clock.now)
		if news {
			s.heard(pool)
		}
		k.writeSettings(ctx, pool, missing, stale)
	}
}

// writeSettings brings what Redis has of a pool up to date. What fails shows at the next look.
func (k *keeper) writeSettings(ctx context.Context, pool string, missing map[string]setting, stale []moment) {
	key := k.names.settings(pool)
	if k.settings.renewed == nil {
		k.settings.renewed = make(map[string]*renewal)
	}
	renewed := k.settings.renewed[pool]
	if renewed == nil {
		renewed = new(renewal)
		k.settings.renewed[pool] = renewed
	}
	if len(missing) > 0 {
		renewed.forget()
	}
	_, _ = k.store.pipeline(ctx, func(p redis.Pipeliner) {
		for name, one := range missing {
			p.ZAddArgs(ctx, key, redis.ZAddArgs{GT: true, Members: []redis.Z{{Score: float64(one.at), Member: one.member(name)}}})
		}
		for _, at := range stale { // by score: who sets the same again gives it another
			p.ZRemRangeByScore(ctx, key, scoreText(at), scoreText(at))
		}
		if renewed.due(k.config.Now(), settingsTTL) {
			p.Expire(ctx, key, settingsTTL)
		}
	})
}
