// Package scrape reads the engines' own metrics and turns them into
// [feedback.EngineState]s.
//
// A [Scraper] asks each base URL for its page, each at its own moment, and hands the
// result to [Hooks]. Data-parallel ranks share a URL: the page is read once, and each
// rank gets what it says of that rank.
//
// [Parse] knows the names of vLLM since 0.6 and of SGLang:
//
//   - Where a release has two names for one thing, the newer counts; they are never
//     added. Counters are known with and without "_total".
//   - Prompt tokens by source, or prompt tokens cached, are preferred to the prefix
//     cache's own counters: until July 2026 those counted a request's lookup again in
//     every step in which it waited for memory.
//   - vLLM's gpu_prefix_cache_queries and _hits counted blocks until May 2025 and
//     tokens afterwards, and no page says which. They are taken as blocks: their ratio
//     is right in any case, their size in tokens is an upper bound.
//   - The hit rates that vLLM 0.6 and SGLang print as gauges are no counts and are not
//     used, but a negative one says that caching is off.
//   - Requests and counters are added up over data-parallel engines, usage is that of
//     the fullest. num_gpu_blocks is a total already and is shared out.
//   - A series whose value is not a sensible number takes away what it is part of:
//     half a sum would look like a restart.
//
// What a page does not say is not 0, and what is no page of a known engine (HTML, JSON,
// a page cut short, one without a series that is known) is an error and never an idle
// engine.
package scrape
