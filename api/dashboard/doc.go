// Package dashboard serves the page of the admin port: what the fleet does, where prompt
// tokens went, how pools are routed, the latest decisions and why, the index.
//
// The page is static files, embedded: HTML, CSS, ES modules, and uPlot for the charts
// (static/vendor/uplot, as published, with its licence). All its URLs are relative, so it
// works below any path; all its data come from AdminService (api/rpc), called over Connect
// in JSON from the browser. It loads nothing from other hosts and runs nothing but its own
// files, and a Content-Security-Policy holds it to that. What comes from outside is put in
// as text, never as HTML, which the policy enforces too (Trusted Types).
//
// The package holds no data and imports nothing of the router:
//
//	page, err := dashboard.New("v1.2.3")
//	mux.Handle("/{$}", page)
//	mux.Handle(dashboard.Prefix, page)
package dashboard
