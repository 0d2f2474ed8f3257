package config_test

import (
	"fmt"

	"github.com/warmroute/warmroute/internal/config"
)

func ExampleParse() {
	_, _, err := config.Parse("warmroute.yaml", []byte(`version: 1
pools:
  - name: chat
    routing:
      concurency_threshold: 64
    backends:
      - url: http://gpu-1:8000
timeouts:
  idle: 5
`))
	for _, mistake := range config.Each(err) {
		fmt.Println(mistake)
	}
	// Output:
	// warmroute.yaml:5: pools[0].routing.concurency_threshold: unknown key "concurency_threshold": did you mean concurrency_threshold?
	// warmroute.yaml:9: timeouts.idle: 5 has no unit: write 5s for seconds, 5ms for milliseconds
}
