package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// checkPackageComments wants exactly one package comment per package, in a file that is not a test, starting
// the way godoc expects it: "Package name …", or "Command name …" for programs.
func checkPackageComments(t *tree) []string {
	var breaches []string
	for _, p := range t.pkgs {
		var found []string
		name := ""
		for _, f := range p.files {
			if !f.test {
				name = f.ast.Name.Name
			}
			if f.ast.Doc.Text() == "" {
				continue
			}
			found = append(found, f.path)
			want := "Package " + f.ast.Name.Name + " "
			if f.ast.Name.Name == "main" {
				want = "Command "
			}
			switch {
			case f.test:
				breaches = append(breaches, f.path+": the package comment belongs in a file that is not a test")
			case !strings.HasPrefix(f.ast.Doc.Text(), want):
				breaches = append(breaches, fmt.Sprintf("%s: the package comment must start with %q", f.path, want))
			}
		}
		switch {
		case name == "":
			breaches = append(breaches, p.dir+": there are only test files: add a doc.go with a package comment")
		case len(found) == 0:
			breaches = append(breaches, p.dir+": the package has no package comment")
		case len(found) > 1:
			breaches = append(breaches, fmt.Sprintf("%s: %d package comments, want one: %s", p.dir, len(found), strings.Join(found, ", ")))
		}
	}
	return sorted(breaches)
}

// toldByInterface are methods whose comment would only repeat the interface of the standard library they satisfy.
var toldByInterface = []string{"Error", "Unwrap", "Is", "String", "ServeHTTP", "Len", "Less", "Swap"}

// checkExportedDocs wants a comment on every exported package-level name and every exported method of an
// exported type. A comment on a group of constants or variables covers the group. Programs, test files and
// generated files are left out.
func checkExportedDocs(t *tree) []string {
	var breaches []string
	for _, p := range t.pkgs {
		if p.isMain() {
			continue
		}
		for _, f := range p.files {
			if f.test || ast.IsGenerated(f.ast) {
				continue
			}
			for _, id := range undocumented(f.ast) {
				breaches = append(breaches, fmt.Sprintf("%s: exported %s has no comment", t.at(id), id.Name))
			}
		}
	}
	return sorted(breaches)
}

func undocumented(f *ast.File) []*ast.Ident {
	var ids []*ast.Ident
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			told := d.Recv != nil && slices.Contains(toldByInterface, d.Name.Name)
			if d.Name.IsExported() && d.Doc.Text() == "" && receiverExported(d) && !told {
				ids = append(ids, d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				ids = append(ids, undocumentedSpec(d, s)...)
			}
		}
	}
	return ids
}

func undocumentedSpec(d *ast.GenDecl, s ast.Spec) []*ast.Ident {
	switch s := s.(type) {
	case *ast.TypeSpec:
		alone := !d.Lparen.IsValid() && d.Doc.Text() != ""
		if s.Name.IsExported() && !alone && s.Doc.Text() == "" && s.Comment.Text() == "" {
			return []*ast.Ident{s.Name}
		}
	case *ast.ValueSpec:
		if d.Doc.Text() != "" || s.Doc.Text() != "" || s.Comment.Text() != "" {
			return nil
		}
		var ids []*ast.Ident
		for _, id := range s.Names {
			if id.IsExported() {
				ids = append(ids, id)
			}
		}
		return ids
	}
	return nil
}

// receiverExported is true for functions and for methods of exported types.
func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
