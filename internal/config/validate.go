package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmroute/warmroute/backends"
	"github.com/warmroute/warmroute/feedback/recent"
	"github.com/warmroute/warmroute/feedback/tuning"
	"github.com/warmroute/warmroute/router"
)

// maxRanks bounds the data-parallel ranks behind one URL.
const maxRanks = 1024

// Validate checks everything that can be checked without asking anybody else. The
// error joins one [*Error] for everything that is wrong.
func (c *Config) Validate() ([]Warning, error) {
	if c == nil {
		return nil, errNoConfig
	}
	return c.validate(nil)
}

// validate adds what makes no sense to what could not be read.
func (c *Config) validate(unread []error) ([]Warning, error) {
	v := &validation{config: c, errs: unread}
	for _, err := range unread {
		var at *Error
		if errors.As(err, &at) {
			v.unread = append(v.unread, at.Path)
		}
	}
	v.process()
	for i := range c.Pools {
		v.pool(&c.Pools[i], "pools["+strconv.Itoa(i)+"]")
	}
	v.names()
	v.endpoints()
	v.keys()
	v.adminKeys()
	v.shared()
	if len(v.errs) == 0 {
		v.rehearse()
	}
	slices.SortStableFunc(v.errs, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return v.warnings, errors.Join(v.errs...)
}

func lineOf(err error) int {
	var at *Error
	if errors.As(err, &at) {
		return at.Line
	}
	return 0
}

// validation collects what is wrong with a configuration.
type validation struct {
	config   *Config
	unread   []string // paths that could not be read, of which nothing more is said
	errs     []error
	warnings []Warning
}

// line is where a path stands, or the nearest thing that holds it.
func (v *validation) line(path string) int {
	for path != "" {
		if line := v.config.lines[path]; line > 0 {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

// where names a path and its line, or a flag, for the text of a message.
func (v *validation) where(path string) string {
	if flag := v.config.flags[path]; flag != "" {
		return "another " + flag
	}
	if line := v.line(path); line > 0 {
		return fmt.Sprintf("%s in line %d", path, line)
	}
	return path
}

// given reports whether the file names a path.
func (v *validation) given(path string) bool { return v.config.lines[path] > 0 }

func (v *validation) fail(path, format string, args ...any) {
	for _, unread := range v.unread {
		if unread == "" || path == unread || strings.HasPrefix(path, unread+".") || strings.HasPrefix(path, unread+"[") {
			return
		}
	}
	err := v.located(path, format, args)
	for _, said := range v.errs {
		if said.Error() == err.Error() {
			return // one flag stands for many keys
		}
	}
	v.errs = append(v.errs, err)
}

func (v *validation) warn(path, format string, args ...any) {
	v.warnings = append(v.warnings, Warning(*v.located(path, format, args)))
}

// located says of a path where its value came from: a line of the file or a flag.
func (v *validation) located(path, format string, args []any) *Error {
	message := fmt.Sprintf(format, args...)
	if flag := v.config.flags[path]; flag != "" {
		return &Error{Path: flag, Message: message}
	}
	return &Error{File: v.config.file, Line: v.line(path), Path: path, Message: message}
}

// process checks what concerns the process as a whole.
func (v *validation) process() {
	c := v.config
	switch {
	case c.Version == 0 && !v.given("version"):
		v.fail("version", "is missing: write version: %d", Version)
	case c.Version != Version:
		v.fail("version", "%d is not a version this program reads, want %d", c.Version, Version)
	}
	v.address("listen", c.Listen)
	v.address("admin_listen", c.AdminListen)
	if overlap(c.Listen, c.AdminListen) {
		v.fail("admin_listen", "%q and the address of listen, %q, overlap: give the two different ports", c.AdminListen, c.Listen)
	}
	v.tls("tls", c.TLS)
	v.tls("admin_tls", c.AdminTLS)
	l := c.Limits
	v.atLeast("limits.body_bytes", l.BodyBytes, 1<<10)
	v.atLeast("limits.sagemaker_body_bytes", l.SageMakerBodyBytes, 1<<10)
	if all, one := l.BodiesInFlightBytes, l.BodyBytes; all < one {
		v.fail("limits.bodies_in_flight_bytes", "%v is below limits.body_bytes (%v): the largest body could never be read", all, one)
	} else if one := l.SageMakerBodyBytes; all < one {
		v.fail("limits.bodies_in_flight_bytes", "%v is below limits.sagemaker_body_bytes (%v): the largest body could never be read", all, one)
	}
	v.atLeast("limits.header_bytes", l.HeaderBytes, 4<<10)
	if l.HeaderBytes > 16<<20 {
		v.fail("limits.header_bytes", "%v is above 16MiB", l.HeaderBytes)
	}
	if l.IndexBlocks < 1024 {
		v.fail("limits.index_blocks", "%d is below 1024", l.IndexBlocks)
	}
	if l.MaxQueued < 1 {
		v.fail("limits.max_queued", "%d is below 1", l.MaxQueued)
	}
	if !(l.QueueShare > 0 && l.QueueShare <= 1) {
		v.fail("limits.queue_share", "%v is not above 0 and at most 1 (which is no bound)", l.QueueShare)
	}
	if least, most := Bytes(recent.MinBytes), Bytes(recent.MaxBytes); l.RecentRequestsBytes != 0 && (l.RecentRequestsBytes < least || l.RecentRequestsBytes > most) {
		v.fail("limits.recent_requests_bytes", "%v is neither 0 (off) nor in %v..%v", l.RecentRequestsBytes, least, most)
	}
	t := c.Timeouts
	v.positive("timeouts.connect", t.Connect)
	v.positive("timeouts.first_byte", t.FirstByte)
	v.positive("timeouts.idle", t.Idle)
	v.positive("timeouts.queue", t.Queue)
	v.positive("timeouts.read_header", t.ReadHeader)
	v.positive("timeouts.shutdown_grace", t.ShutdownGrace)
	v.scrape(c.Scrape)
	v.health(c.Health)
	v.redis(c.Redis)
	v.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	v.oneOf("log.format", c.Log.Format, "text", "json")
	v.atLeast("request_log.max_bytes", c.RequestLog.MaxBytes, 1<<20)
	if c.RequestLog.Path == "" && v.given("request_log.max_bytes") {
		v.warn("request_log.max_bytes", "nothing is written without request_log.path")
	}
	if len(c.Pools) == 0 {
		v.fail("pools", "there is no pool: name at least one, with its backends")
	}
}

// minScrape is the shortest interval: an engine needs a millisecond or more to write
// its page, which it takes from its requests.
const minScrape = 10 * time.Millisecond

// scrape checks how metrics are read, also where they are not: the switch alone must
// not turn a configuration bad.
func (v *validation) scrape(s Scrape) {
	if s.Interval < minScrape {
		v.fail("scrape.interval", "%v is below %v", s.Interval, minScrape)
	}
	v.positive("scrape.timeout", s.Timeout)
	v.path("scrape.path", s.Path, "/metrics")
	if s.Enabled && s.Timeout > s.Interval && s.Interval >= minScrape {
		v.warn("scrape.timeout", "%v is longer than scrape.interval (%v): an engine that is slow to answer is looked at less often", s.Timeout, s.Interval)
	}
}

// health checks how engines are probed, also where they are not.
func (v *validation) health(h Health) {
	v.path("health.path", h.Path, "/health")
	v.positive("health.interval", h.Interval)
	v.positive("health.timeout", h.Timeout)
	v.positive("health.frozen_after", h.FrozenAfter)
	if h.Failures < 1 {
		v.fail("health.failures", "%d is below 1", h.Failures)
	}
}

// path checks a path below an engine's base URL.
func (v *validation) path(setting, path, such string) {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?# ") {
		v.fail(setting, "%q is not a path: want one such as %s, without query", path, such)
	} else if _, err := url.PathUnescape(path); err != nil {
		v.fail(setting, "%q is not a path: %v", path, err)
	}
}

func (v *validation) address(path, address string) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		v.fail(path, "%q is not an address: want host:port, or :port for every interface", address)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		v.fail(path, "%q: port %q is not in 0..65535", address, port)
	}
}

// overlap reports whether two addresses cannot be listened on at the same time: one
// port, and one host or every host.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil {
		return false
	}
	n, err := strconv.Atoi(portA)
	m, other := strconv.Atoi(portB)
	if err != nil || other != nil || n != m || n == 0 {
		return false
	}
	every := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "" || ip != nil && ip.IsUnspecified()
	}
	return every(hostA) || every(hostB) || sameHost(hostA, hostB)
}

// sameHost reports whether two hosts are one, in whatever spelling.
func sameHost(a, b string) bool {
	if x, y := net.ParseIP(a), net.ParseIP(b); x != nil && y != nil {
		return x.Equal(y)
	}
	loopback := func(host string) bool {
		return host == "127.0.0.1" || host == "::1" || strings.EqualFold(host, "localhost")
	}
	return strings.EqualFold(a, b) || loopback(a) && loopback(b)
}

func (v *validation) atLeast(path string, value, least Bytes) {
	if value < least {
		v.fail(path, "%v is below %v", value, least)
	}
}

func (v *validation) positive(path string, d time.Duration) {
	if d <= 0 {
		v.fail(path, "%v is not above 0", d)
	}
}

func (v *validation) oneOf(path, value string, names ...string) {
	if slices.Contains(names, value) {
		return
	}
	hint := ""
	if name := closest(value, names); name != "" {
		hint = ": did you mean " + name + "?"
	}
	v.fail(path, "%q is not one of %s%s", value, strings.Join(names, ", "), hint)
}

// pool checks one pool on its own.
func (v *validation) pool(p *Pool, path string) {
	if p.Name == "" {
		v.fail(path+".name", "is missing: a pool needs a name")
	} else if i := strings.IndexFunc(p.Name, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 {
		v.fail(path+".name", "%q has a space or control character", p.Name)
	}
	for i, m := range p.Models {
		if m.Name == "" {
			v.fail(fmt.Sprintf("%s.models[%d]", path, i), "a model needs a name")
		}
	}
	routing := p.Routing.Router()
	if !slices.Contains(router.Strategies(), routing.Strategy) {
		v.oneOf(path+".routing.strategy", routing.Strategy, router.Strategies()...)
		routing.Strategy = router.PrefixAware
	}
	for _, err := range Each(routing.Validate()) {
		key, message, _ := strings.Cut(err.Error(), ": ")
		v.fail(path+".routing."+key, "%s", message)
	}
	if err := (tuning.Rules{Observation: p.Tuning.Observation}).Validate(); err != nil {
		key, message, _ := strings.Cut(err.Error(), ": ")
		v.fail(path+".tuning."+key, "%s", message)
	}
	if p.Tuning.Automatic && v.config.Limits.RecentRequestsBytes == 0 {
		v.fail(path+".tuning.automatic", "it follows advice, which rests on remembered requests: set limits.recent_requests_bytes above 0")
	}
	if err := backends.Ejection(p.Ejection).Validate(); err != nil {
		key, message, _ := strings.Cut(err.Error(), ": ")
		v.fail(path+"."+key, "%s", message)
	}
	v.backends(p, path)
}

// backends checks the backends of one pool. One that is there twice counts once.
func (v *validation) backends(p *Pool, path string) {
	v.discovery(p, path)
	if len(p.Backends) == 0 && !p.Discovery.any() {
		v.fail(path+".backends", "pool %q has no backend: name at least one by its url, or a source in discovery", p.Name)
	}
	first := make(map[string]string)
	for i, b := range p.Backends {
		at := path + ".backends[" + strconv.Itoa(i) + "]"
		if b.URL == "" {
			v.fail(at+".url", "is missing: a backend needs a url")
		} else if id, err := parseURL(b.URL); err != nil {
			v.fail(at+".url", "%v", err)
		} else if earlier, twice := first[id]; twice {
			v.warn(at+".url", "%q is backend %s, which %s names already: it counts once, as written there", showURL(b.URL), id, v.where(earlier))
		} else {
			first[id] = at + ".url"
		}
		if !(b.Weight > 0 && b.Weight <= 1e6) {
			v.fail(at+".weight", "%v is not above 0", b.Weight)
		}
		if t := b.ConcurrencyThreshold; (t != 0 || v.given(at+".concurrency_threshold")) && (t < router.MinConcurrencyThreshold || t > router.MaxConcurrencyThreshold) {
			v.fail(at+".concurrency_threshold", "%d is not in %d..%d", t, router.MinConcurrencyThreshold, router.MaxConcurrencyThreshold)
		}
		if b.DataParallelRanks < 0 || b.DataParallelRanks > maxRanks {
			v.fail(at+".data_parallel_ranks", "%d is not in 0..%d", b.DataParallelRanks, maxRanks)
		}
	}
}

// names checks that no two pools claim one name, and no two models.
func (v *validation) names() {
	pools := make(map[string]string)
	models := make(map[string]string)
	owners := make(map[string]int)    // the first pool that has a model
	served := make(map[string]string) // what aliases stand for
	for i, p := range v.config.Pools {
		path := "pools[" + strconv.Itoa(i) + "]"
		if earlier, twice := pools[p.Name]; twice && p.Name != "" {
			v.fail(path+".name", "%q is already the name of another pool, %s", p.Name, v.where(earlier))
		}
		pools[p.Name] = path + ".name"
		for j, m := range p.Models {
			at := path + ".models[" + strconv.Itoa(j) + "]"
			earlier, twice := models[m.Name]
			if owner := owners[m.Name]; twice && owner != i && v.config.Pools[owner].besides(p) {
				twice = false
			}
			if twice && m.Name != "" {
				v.fail(at, "the model %q is named twice, first by %s", m.Name, v.where(earlier))
				continue
			}
			if earlier == "" {
				models[m.Name], owners[m.Name] = at, i
			}
			if m.Served != "" && m.Served != m.Name {
				served[m.Served] = at
			}
		}
	}
	for i, p := range v.config.Pools {
		for j, m := range p.Models {
			real, taken := served[m.Name]
			if taken && m.Served != "" && m.Served != m.Name {
				at := "pools[" + strconv.Itoa(i) + "].models[" + strconv.Itoa(j) + "]"
				v.fail(at, "the alias %q is also what an engine calls a model, by %s: requests for it would be ambiguous", m.Name, v.where(real))
			}
		}
	}
}

// shared warns of engines that stand in more than one pool.
func (v *validation) shared() {
	pools := make(map[string]string)
	for i, p := range v.config.Pools {
		own := make(map[string]bool)
		for j, b := range p.Backends {
			id, err := parseURL(b.URL)
			if err != nil || own[id] {
				continue
			}
			own[id] = true
			if other, taken := pools[id]; taken {
				at := "pools[" + strconv.Itoa(i) + "].backends[" + strconv.Itoa(j) + "].url"
				v.warn(at, "backend %s is in pool %q too: each pool counts only its own requests against the concurrency_threshold", id, other)
				continue
			}
			pools[id] = p.Name
		}
	}
}

// rehearse builds the pools once, so that nothing passes here that a router would
// refuse.
func (v *validation) rehearse() {
	r := router.New(router.Options{})
	for i, spec := range v.config.PoolSpecs() {
		if _, err := r.AddPool(spec); err != nil {
			v.fail("pools["+strconv.Itoa(i)+"]", "%v", err)
		}
	}
}
