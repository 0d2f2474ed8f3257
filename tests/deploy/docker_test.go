package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/warmroute/warmroute/internal/config"
)

// instruction is a line of a Dockerfile.
type instruction struct{ word, rest string }

func dockerfile(t *testing.T) []instruction {
	t.Helper()
	var all []instruction
	for line := range strings.Lines(string(read(t, "docker", "Dockerfile"))) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		all = append(all, instruction{word, rest})
	}
	return all
}

// list reads the JSON form of a command.
func list(t *testing.T, text string) []string {
	t.Helper()
	var words []string
	if err := json.Unmarshal([]byte(text), &words); err != nil {
		t.Fatalf("%s is not in the form of a list: %v", text, err)
	}
	return words
}

// plainImage is an image without the name of a registry.
var plainImage = regexp.MustCompile(`^[a-z0-9]+:[a-z0-9.]+$`)

// TestDockerfile: the stages, the user, and commands that the program understands.
func TestDockerfile(t *testing.T) {
	var images, copied []string
	last := make(map[string]string) // of the final stage
	for _, in := range dockerfile(t) {
		switch in.word {
		case "FROM":
			images = append(images, strings.Fields(in.rest)[0])
			clear(last)
		case "COPY":
			copied = append(copied, in.rest)
		case "RUN", "ARG", "WORKDIR":
			if len(images) > 1 && in.word == "RUN" {
				t.Error("there is nothing to run in an empty image")
			}
		case "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD":
			last[in.word] = in.rest
		default:
			t.Errorf("%s: what is that for?", in.word)
		}
	}
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(gomod))[1]
	if !slices.Equal(images, []string{"golang:" + goVersion, "scratch"}) {
		t.Errorf("built from %v, want golang:%s and then nothing", images, goVersion)
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(last["USER"]) {
		t.Errorf("runs as %q, want numbers, and not root: Kubernetes checks them", last["USER"])
	}
	if !slices.ContainsFunc(copied, func(c string) bool { return strings.HasSuffix(c, " /warmroute") }) || !slices.Equal(list(t, last["ENTRYPOINT"]), []string{"/warmroute"}) {
		t.Errorf("runs %s, copies %v", last["ENTRYPOINT"], copied)
	}
	if last["STOPSIGNAL"] != "SIGTERM" {
		t.Errorf("is stopped by %q", last["STOPSIGNAL"])
	}
	c := config.Default()
	if want := port(c.Listen) + " " + port(c.AdminListen); last["EXPOSE"] != want {
		t.Errorf("exposes %q, want %q", last["EXPOSE"], want)
	}
	understands(t, list(t, last["CMD"]))
	_, check, _ := strings.Cut(last["HEALTHCHECK"], "CMD ")
	if words := list(t, check); words[0] != "/warmroute" {
		t.Errorf("asks for health by %v", words)
	} else {
		understands(t, words[1:])
	}
	if _, err := os.Stat(filepath.Join(root, "deploy", "docker", "Dockerfile.dockerignore")); err != nil {
		t.Error(err)
	}
}

// port is that of an address.
func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// service is what the Compose file says of one.
type service struct {
	Build struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
	} `yaml:"build"`
	Image           string            `yaml:"image"`
	Environment     map[string]string `yaml:"environment"`
	MemLimit        string            `yaml:"mem_limit"`
	Volumes         []string          `yaml:"volumes"`
	DependsOn       []string          `yaml:"depends_on"`
	ReadOnly        bool              `yaml:"read_only"`
	CapDrop         []string          `yaml:"cap_drop"`
	SecurityOpt     []string          `yaml:"security_opt"`
	Restart         string            `yaml:"restart"`
	StopGracePeriod string            `yaml:"stop_grace_period"`
	Ports           []string          `yaml:"ports"`
	Command         []string          `yaml:"command"`
	User            string            `yaml:"user"`
}

// TestCompose: the file holds together with its configuration and the Dockerfile.
func TestCompose(t *testing.T) {
	var file struct {
		Name     string             `yaml:"name"`
		Router   service            `yaml:"x-router"`
		Services map[string]service `yaml:"services"`
	}
	if err := yaml.Load(read(t, "docker", "compose.yaml"), &file, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "deploy", "docker")
	published := make(map[string]string)
	routers := 0
	for name, s := range file.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.SecurityOpt) == 0 || s.Restart == "" {
			t.Errorf("%s: read only %v, without %v, %v, restarts %q", name, s.ReadOnly, s.CapDrop, s.SecurityOpt, s.Restart)
		}
		for _, p := range s.Ports {
			host := p[:strings.LastIndexByte(p, ':')]
			if other, twice := published[port(host)]; twice {
				t.Errorf("%s and %s have port %s", name, other, host)
			}
			published[port(host)] = name
		}
		for _, other := range s.DependsOn {
			if _, there := file.Services[other]; !there {
				t.Errorf("%s depends on %s, which is not there", name, other)
			}
		}
		if !strings.HasPrefix(name, "router") {
			continue
		}
		routers++
		if got, err := os.Stat(filepath.Join(dir, s.Build.Context, s.Build.Dockerfile)); err != nil || got.IsDir() {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(s.Volumes, []string{"./config:/etc/warmroute:ro"}) {
			t.Errorf("%s: volumes %v", name, s.Volumes)
		}
		var environment []string
		for key, value := range s.Environment {
			environment = append(environment, key)
			if _, secret := secrets[key]; secret && value != "${"+key+":?}" {
				t.Errorf("%s: %s is %q, want it from the environment", name, key, value)
			}
		}
		c := checked(t, "deploy/docker/config/warmroute.yaml", read(t, "docker", "config", "warmroute.yaml"), environment)
		for _, p := range s.Ports {
			if inside := port(p); inside != port(c.Listen) && inside != port(c.AdminListen) {
				t.Errorf("%s publishes %s, where nobody listens", name, p)
			}
		}
		outlives(t, name, s.StopGracePeriod, c)
		within(t, name, s.Environment["GOMEMLIMIT"], s.MemLimit)
		if host := strings.TrimSuffix(c.Redis.Addresses[0], ":6379"); file.Services[host].Image == "" {
			t.Errorf("Redis at %s is not among the services", c.Redis.Addresses[0])
		}
	}
	redis := file.Services["redis"]
	if !plainImage.MatchString(redis.Image) {
		t.Errorf("Redis is %q", redis.Image)
	}
	tryRedis(t, replaced(redis.Command, "${REDIS_PASSWORD:?}"))
	if routers != 2 {
		t.Errorf("%d routers", routers)
	}
}

// outlives checks that whoever stops a router waits until it has ended by itself.
func outlives(t *testing.T, what, patience string, c *config.Config) {
	t.Helper()
	got, err := time.ParseDuration(patience)
	if need := c.Timeouts.ShutdownDelay + c.Timeouts.ShutdownGrace + 5*time.Second; err != nil || got < need {
		t.Errorf("%s is waited for %v, %v; it needs up to %v", what, got, err, need)
	}
}

// within checks that Go collects memory before its limit is reached.
func within(t *testing.T, what, soft, hard string) {
	t.Helper()
	s, h := bytesOf(t, soft), bytesOf(t, hard)
	if s > h*95/100 || s < h*80/100 {
		t.Errorf("%s: GOMEMLIMIT %s and a limit of %s: want about nine tenths", what, soft, hard)
	}
}

// bytesOf reads a size as Go, Kubernetes and Compose write it.
func bytesOf(t *testing.T, text string) int {
	t.Helper()
	var n int
	var unit string
	if _, err := fmt.Sscanf(text, "%d%s", &n, &unit); err != nil {
		t.Fatalf("%q is not a size: %v", text, err)
	}
	shift, known := map[string]int{"MiB": 20, "Mi": 20, "m": 20, "GiB": 30, "Gi": 30, "g": 30}[unit]
	if !known {
		t.Fatalf("%q is not a size", text)
	}
	return n << shift
}

// replaced puts the password into a command.
func replaced(command []string, placeholder string) []string {
	command = slices.Clone(command)
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], placeholder, secrets["REDIS_PASSWORD"])
	}
	return command
}
