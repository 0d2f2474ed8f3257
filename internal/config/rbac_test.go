package config

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestPermissionsOfDiscovery: the manifest gives what discovery in Kubernetes needs, and
// no more.
func TestPermissionsOfDiscovery(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", "rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
		Rules    []struct {
			APIGroups []string `yaml:"apiGroups"`
			Resources []string
			Verbs     []string
		}
		RoleRef  struct{ Kind, Name string } `yaml:"roleRef"`
		Subjects []struct{ Kind, Name, Namespace string }
	}
	objects := make(map[string]object)
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for {
		var o object
		if err := loader.Load(&o); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		objects[o.Kind] = o
	}
	account, role, binding := objects["ServiceAccount"], objects["Role"], objects["RoleBinding"]
	if len(role.Rules) != 1 || !slices.Equal(role.Rules[0].APIGroups, []string{"discovery.k8s.io"}) ||
		!slices.Equal(role.Rules[0].Resources, []string{"endpointslices"}) || !slices.Equal(role.Rules[0].Verbs, []string{"list", "watch"}) {
		t.Errorf("rules %+v, want to list and watch endpointslices", role.Rules)
	}
	if binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != role.Metadata.Name || binding.Metadata.Namespace != role.Metadata.Namespace {
		t.Errorf("the binding is of %+v, want the role %+v", binding.RoleRef, role.Metadata)
	}
	if len(binding.Subjects) != 1 || binding.Subjects[0].Kind != "ServiceAccount" ||
		binding.Subjects[0].Name != account.Metadata.Name || binding.Subjects[0].Namespace != account.Metadata.Namespace {
		t.Errorf("the binding is for %+v, want the account %+v", binding.Subjects, account.Metadata)
	}
}
