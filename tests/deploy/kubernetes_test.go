package deploy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/warmroute/warmroute/internal/config"
)

// cluster is what the manifests make of one.
type cluster struct {
	objects     []metav1.Object
	deployments map[string]*appsv1.Deployment
	services    map[string]*corev1.Service
	configs     map[string]*corev1.ConfigMap
	accounts    map[string]*corev1.ServiceAccount
	roles       map[string]*rbacv1.Role
	policies    []*networkingv1.NetworkPolicy
	budgets     []*policyv1.PodDisruptionBudget
}

// apply decodes every manifest into the types of the API; a field that they do not know, or
// that is there twice, is an error.
func apply(t *testing.T) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	files, err := filepath.Glob(filepath.Join(root, "deploy", "kubernetes", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	c := &cluster{
		deployments: make(map[string]*appsv1.Deployment), services: make(map[string]*corev1.Service),
		configs: make(map[string]*corev1.ConfigMap), accounts: make(map[string]*corev1.ServiceAccount), roles: make(map[string]*rbacv1.Role),
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents := yamlutil.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
		for {
			document := make([]byte, len(text))
			n, err := documents.Read(document)
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			object, _, err := decoder.Decode(document[:n], nil, nil)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			c.add(t, file, object)
		}
	}
	return c
}

func (c *cluster) add(t *testing.T, file string, object runtime.Object) {
	t.Helper()
	switch o := object.(type) {
	case *appsv1.Deployment:
		c.deployments[o.Name] = o
	case *corev1.Service:
		c.services[o.Name] = o
	case *corev1.ConfigMap:
		c.configs[o.Name] = o
	case *corev1.ServiceAccount:
		c.accounts[o.Name] = o
	case *rbacv1.Role:
		c.roles[o.Name] = o
	case *rbacv1.RoleBinding: // internal/config compares it with the role and the account
	case *networkingv1.NetworkPolicy:
		c.policies = append(c.policies, o)
	case *policyv1.PodDisruptionBudget:
		c.budgets = append(c.budgets, o)
	default:
		t.Errorf("%s: %T is not looked at by this test", file, object)
	}
	meta, ok := object.(metav1.Object)
	if !ok {
		t.Fatalf("%s: %T has no name", file, object)
	}
	c.objects = append(c.objects, meta)
}

// reaches reports whether a selector chooses the pods of a deployment.
func reaches(t *testing.T, selector *metav1.LabelSelector, d *appsv1.Deployment) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(labels.Set(d.Spec.Template.Labels))
}

// container is the only one of a deployment.
func container(t *testing.T, d *appsv1.Deployment) *corev1.Container {
	t.Helper()
	if d == nil || len(d.Spec.Template.Spec.Containers) != 1 {
		t.Fatal("there is no such deployment, or it has not one container")
	}
	return &d.Spec.Template.Spec.Containers[0]
}

// portOf finds a port of a container by name or number, 0 if it has none.
func portOf(c *corev1.Container, p intstr.IntOrString) int32 {
	for _, have := range c.Ports {
		if p.Type == intstr.String && have.Name == p.StrVal || p.Type == intstr.Int && have.ContainerPort == p.IntVal {
			return have.ContainerPort
		}
	}
	return 0
}

// TestManifests: what they say of each other is true.
func TestManifests(t *testing.T) {
	c := apply(t)
	for _, o := range c.objects {
		if o.GetNamespace() != "inference" {
			t.Errorf("%s is in the namespace %q", o.GetName(), o.GetNamespace())
		}
	}
	for name, d := range c.deployments {
		pod := d.Spec.Template.Spec
		if !reaches(t, d.Spec.Selector, d) {
			t.Errorf("%s does not choose its own pods", name)
		}
		for other, o := range c.deployments {
			if other != name && reaches(t, d.Spec.Selector, o) {
				t.Errorf("%s chooses the pods of %s", name, other)
			}
		}
		one := container(t, d)
		if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 || s.SeccompProfile == nil {
			t.Errorf("%s may run as root", name)
		}
		if s := one.SecurityContext; s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
			s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") {
			t.Errorf("%s has privileges", name)
		}
		if one.Resources.Limits.Memory().IsZero() || one.Resources.Requests.Memory().IsZero() || one.Resources.Requests.Cpu().IsZero() {
			t.Errorf("%s says nothing of what it needs", name)
		}
		for _, env := range one.Env {
			if env.ValueFrom != nil && (env.ValueFrom.SecretKeyRef == nil || !strings.Contains(string(read(t, "kubernetes", "README.md")), "--from-literal="+env.ValueFrom.SecretKeyRef.Key+"=")) {
				t.Errorf("%s: README.md does not say how to make the secret of %s", name, env.Name)
			}
		}
	}
	for name, s := range c.services {
		d := c.deployments[strings.TrimSuffix(name, "-admin")]
		one := container(t, d)
		if !reaches(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, d) {
			t.Errorf("the service %s does not reach its pods", name)
		}
		for _, p := range s.Spec.Ports {
			if portOf(one, p.TargetPort) == 0 {
				t.Errorf("the service %s leads to port %s, which no container has", name, p.TargetPort.String())
			}
		}
	}
	router := c.deployments["warmroute"]
	for _, b := range c.budgets {
		if !reaches(t, b.Spec.Selector, router) || b.Spec.MinAvailable.IntValue() >= int(*router.Spec.Replicas) {
			t.Errorf("the budget lets no pod go: %v of %d", b.Spec.MinAvailable, *router.Spec.Replicas)
		}
	}
	if len(c.budgets) != 1 || c.accounts[router.Spec.Template.Spec.ServiceAccountName] == nil {
		t.Errorf("%d budgets, account %q", len(c.budgets), router.Spec.Template.Spec.ServiceAccountName)
	}
	for _, p := range c.policies {
		d := c.deployments[p.Name]
		if d == nil || !reaches(t, &p.Spec.PodSelector, d) {
			t.Errorf("the policy %s is nobody's", p.Name)
			continue
		}
		for _, in := range p.Spec.Ingress {
			for _, at := range in.Ports {
				if at.Port == nil || portOf(container(t, d), *at.Port) == 0 {
					t.Errorf("the policy %s opens %v", p.Name, at.Port)
				}
			}
		}
	}
	redis := container(t, c.deployments["warmroute-redis"])
	tryRedis(t, replaced(redis.Args, "$(REDIS_PASSWORD)"))
}

// routerConfig is the configuration of the manifests, checked.
func routerConfig(t *testing.T, c *cluster) *config.Config {
	t.Helper()
	one := container(t, c.deployments["warmroute"])
	var environment []string
	for _, env := range one.Env {
		environment = append(environment, env.Name)
	}
	return checked(t, "deploy/kubernetes/configmap.yaml", []byte(c.configs["warmroute"].Data["warmroute.yaml"]), environment)
}

// TestRouterManifest: the pod of the router and its configuration fit each other.
func TestRouterManifest(t *testing.T) {
	c := apply(t)
	d, settings := c.deployments["warmroute"], routerConfig(t, c)
	pod, one := d.Spec.Template.Spec, container(t, d)
	if !slices.Equal(one.Command, nil) {
		t.Errorf("runs %v in the place of the image's entry point", one.Command)
	}
	understands(t, one.Args)
	// The configuration is where it is read.
	mount, volume := one.VolumeMounts[0], pod.Volumes[0]
	if len(one.VolumeMounts) != 1 || mount.Name != volume.Name || mount.SubPath != "" || volume.ConfigMap == nil || c.configs[volume.ConfigMap.Name] == nil {
		t.Errorf("mounts %v of %v", one.VolumeMounts, pod.Volumes)
	}
	file := one.Args[slices.Index(one.Args, "--config")+1]
	if _, there := c.configs["warmroute"].Data[path.Base(file)]; !there || path.Dir(file) != mount.MountPath {
		t.Errorf("reads %s, which is not there", file)
	}
	for name, address := range map[string]string{"http": settings.Listen, "admin": settings.AdminListen} {
		if got := portOf(one, intstr.FromString(name)); fmt.Sprint(got) != port(address) {
			t.Errorf("port %s is %d, and the router listens on %s", name, got, address)
		}
	}
	outlives(t, "the pod", fmt.Sprintf("%ds", *pod.TerminationGracePeriodSeconds), settings)
	for _, env := range one.Env {
		if env.Name == "GOMEMLIMIT" {
			within(t, "the pod", env.Value, one.Resources.Limits.Memory().String())
		}
	}
	// Redis and engines are where the configuration looks for them.
	host, at, _ := strings.Cut(settings.Redis.Addresses[0], ":")
	if s := c.services[host]; s == nil || fmt.Sprint(s.Spec.Ports[0].Port) != at {
		t.Errorf("Redis at %s is not there", settings.Redis.Addresses[0])
	}
	if replicas := settings.Pools[0].Routing.Replicas; replicas != int(*d.Spec.Replicas) {
		t.Errorf("%d routers, and they think %d", *d.Spec.Replicas, replicas)
	}
	for _, k := range settings.Pools[0].Discovery.Kubernetes {
		if k.Namespace != "" && k.Namespace != c.roles["warmroute-discovery"].Namespace {
			t.Errorf("looks for engines in %s, where it may not", k.Namespace)
		}
	}
}

// TestProbes: the paths of the probes answer as the probes need it. Without engines the
// router is alive, and not ready.
func TestProbes(t *testing.T) {
	c := apply(t)
	settings := routerConfig(t, c)
	one := container(t, c.deployments["warmroute"])
	file := filepath.Join(t.TempDir(), "warmroute.yaml")
	if err := os.WriteFile(file, []byte(c.configs["warmroute"].Data["warmroute.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	var environment []string
	for key, value := range secrets {
		environment = append(environment, key+"="+value)
	}
	r := launch(t, environment, "serve", "--config", file)
	for _, probe := range []struct {
		name string
		*corev1.Probe
		want int
	}{{"liveness", one.LivenessProbe, http.StatusOK}, {"readiness", one.ReadinessProbe, http.StatusServiceUnavailable}} {
		if fmt.Sprint(portOf(one, probe.HTTPGet.Port)) != port(settings.AdminListen) {
			t.Errorf("%s asks port %s", probe.name, probe.HTTPGet.Port.String())
		}
		if got := status(t, r.admin+probe.HTTPGet.Path); got != probe.want {
			t.Errorf("%s: %s says %d, want %d", probe.name, probe.HTTPGet.Path, got, probe.want)
		}
		if probe.PeriodSeconds == 0 || probe.FailureThreshold < 2 {
			t.Errorf("%s: one late answer is a failure", probe.name)
		}
	}
	if got := status(t, r.admin+"/debug/state"); got != http.StatusUnauthorized {
		t.Errorf("the admin port is open to everybody: %d", got)
	}
	// The delay of the configuration is not waited for.
	if err := r.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
}

// TestKustomization: nothing is forgotten.
func TestKustomization(t *testing.T) {
	var k struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Resources  []string `yaml:"resources"`
	}
	if err := yaml.Load(read(t, "kubernetes", "kustomization.yaml"), &k, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "deploy", "kubernetes", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range files {
		if name := filepath.Base(f); name != "kustomization.yaml" {
			want = append(want, name)
		}
	}
	slices.Sort(k.Resources)
	if !slices.Equal(k.Resources, want) {
		t.Errorf("names %v, there are %v", k.Resources, want)
	}
}

// TestNoRegistries: images are named plainly, so that whoever runs them chooses where they come
// from.
func TestNoRegistries(t *testing.T) {
	for _, d := range apply(t).deployments {
		if image := container(t, d).Image; !plainImage.MatchString(image) {
			t.Errorf("%s is %q", d.Name, image)
		}
	}
	named := regexp.MustCompile(`(?m)^\s*(?:image:|FROM)\s+\S*\.\S*/`)
	err := filepath.WalkDir(filepath.Join(root, "deploy"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if found := named.Find(text); found != nil {
			t.Errorf("%s: %s", path, found)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
