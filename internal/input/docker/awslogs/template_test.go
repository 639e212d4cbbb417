package awslogs

import (
	"strings"
	"testing"
)

func TestTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"{{.ID}}": id[:12], "{{.FullID}}": id, "{{.Name}}": "web-1", "{{.ContainerName}}": "/web-1", "{{.Command}}": "/bin/app -v run",
		"{{.ImageID}}": "fedcba987654", "{{.ImageFullID}}": "sha256:fedcba9876543210fedc", "{{.ImageName}}": "alpine:latest",
		"{{.Hostname}}": "host-1", "{{.DaemonName}}": "docker", "{{.LogPath}}": "", "{{.ContainerID}}": id,
		"{{index .Config `awslogs-group`}}":                       "g",
		"{{index .ContainerLabels `team`}}":                       "blue",
		"{{.ContainerLabels.team}}":                               "blue",
		"{{.ContainerLabels.none}}":                               "<no value>",
		"{{index .ContainerLabels `none`}}":                       "",
		"{{range .ContainerEnv}}{{.}};{{end}}":                    "A=1;SECRET=x;",
		"{{json .ContainerArgs}}":                                 `["-v","run"]`,
		"{{json `<&>`}}":                                          `"<&>"`,
		"{{index (split .ImageName `:`) 0}}":                      "alpine",
		"{{join .ContainerArgs `,`}}":                             "-v,run",
		"{{upper .Name}}{{lower `ABC`}}":                          "WEB-1abc",
		"{{title `two words, one_word über`}}":                    "Two Words, One_word Über",
		"[{{pad .Name 1 2}}]{{pad `` 3 3}}":                       "[ web-1  ]",
		"{{truncate .Name 3}}/{{truncate .Name 99}}":              "web/web-1",
		"{{printf `%-6s|%03d` .Name 7}}":                          "web-1 |007",
		"{{with .ContainerLabels}}{{.team}}{{else}}none{{end}}":   "blue",
		"{{define `x`}}<{{.}}>{{end}}{{template `x` .Name}}":      "<web-1>",
		"{{if eq .Name `web-1`}}yes{{end}}{{len .ContainerArgs}}": "yes2",
		"{{.ExtraAttributes nil}}":                                "map[]",
		"{{html `<`}}{{js `'`}}{{urlquery `a b`}}{{print 1 2}}":   `&lt;\'a+b1 2`,
		"{{range 3}}x{{end}}":                                     "xxx",
	} {
		i := container()
		i.hostname = "host-1"
		if got, err := expand("t", text, i); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestTemplatesAreBounded has what would cost minutes or gigabytes.
func TestTemplatesAreBounded(t *testing.T) {
	double := strings.Repeat("{{$x = printf `%s%s` $x $x}}", 60)
	for text, want := range map[string]string{
		"{{range 9223372036854775807}}{{end}}":                                              "more than 10000 turns",
		"{{range 1000000000}}{{continue}}{{end}}":                                           "more than 10000 turns",
		"{{if true}}{{range 99999}}{{end}}{{end}}":                                          "more than 10000 turns",
		"{{with 1}}{{range 99999}}{{end}}{{end}}":                                           "more than 10000 turns",
		"{{if false}}{{else}}{{range 999}}{{range 999}}{{end}}{{end}}{{end}}":               "more than 10000 turns",
		"{{define `x`}}{{template `x` .}}{{end}}{{template `x` .}}":                         "more than 10000 turns",
		"{{range 9999}}xxxxxxxxxxxxxxxxxxxxxxx{{end}}":                                      "longer than 65536 bytes",
		"{{pad `x` 2000000000 2000000000}}":                                                 "cannot put",
		"{{pad `x` -1 0}}":                                                                  "cannot put",
		"{{pad `x` 65000 65000}}":                                                           "longer than 65536",
		"{{truncate `x` -1}}":                                                               "cannot keep -1 bytes",
		"{{printf `%2000000000d` 1}}":                                                       "more than 4 digits",
		"{{printf `%*d` 100000000 1}}":                                                      "more than 4 digits",
		"{{$x := `xxxxxxxx`}}" + double:                                                     "longer than 65536",
		"{{$x := `xxxxxxxx`}}" + strings.ReplaceAll(double, "printf `%s%s`", "print"):       "longer than 65536",
		"{{$x := pad `x` 30000 30000}}{{join (split $x ``) $x}}":                            "more than 10000 parts",
		"{{$x := pad `x` 300 300}}{{join (split $x ``) $x}}":                                "longer than 65536",
		"{{$x := `<<<<<<<<`}}" + strings.Repeat("{{$x = html $x}}{{$x = print $x $x}}", 60): "longer than 65536",
		"{{$x := `\\`}}" + strings.Repeat("{{$x = json $x}}", 60):                           "longer than 65536",
		strings.Repeat("x", maxTemplate+1):                                                  "longer than 8192 bytes",
	} {
		s, err := expand("t", text, container())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s is %d bytes, %v, want an error with %q", text, len(s), err, want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{.Name}}/{{.FullID}}", "{{range .ContainerEnv}}{{.}}{{end}}", "{{define `x`}}{{template `x` .}}{{end}}{{template `x` .}}",
		"{{printf `%*d` 7 1}}", "{{json .}}{{pad .Name 3 3 | truncate 2}}", "{{range 999999999}}{{break}}{{end}}", "{{with $x := .Config}}{{index $x `tag`}}{{end}}",
		"{{block `b` .}}{{title .Name}}{{end}}", "{{call .Hostname}}", "{{slice .Name 1 2}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := expand("t", text, container())
		if len(s) > maxText {
			t.Errorf("%d bytes", len(s))
		}
		if err != nil && s != "" {
			t.Errorf("%q and %v", s, err)
		}
		for _, legal := range []string{legalGroup(s), legalStream(s)} {
			if strings.ContainsAny(legal, ":*\x00") || len([]rune(legal)) > maxName {
				t.Errorf("%q is not legal", legal)
			}
		}
	})
}

func TestNames(t *testing.T) {
	long := strings.Repeat("é", 600)
	for _, c := range []struct{ raw, group, stream string }{
		{"a-b_c/d#e.f9", "a-b_c/d#e.f9", "a-b_c/d#e.f9"},
		{"a:b*c\x00d", "a_b_c_d", "a_b_c_d"},
		{"aws/lambda", "aws_lambda", "aws/lambda"},
		{"AWS/lambda", "AWS_lambda", "AWS/lambda"},
		{"/aws/lambda", "/aws/lambda", "/aws/lambda"},
		{"aws", "aws", "aws"},
		{"\xff\xfe ü\uFFFD", "_____", "__ ü\uFFFD"},
		{long, strings.Repeat("_", 512), strings.Repeat("é", 512)},
	} {
		if g, s := legalGroup(c.raw), legalStream(c.raw); g != c.group || s != c.stream {
			t.Errorf("%q is %q and %q, want %q and %q", c.raw, g, s, c.group, c.stream)
		}
		if bad := badGroup(c.group) + badStream(c.stream); bad != "" {
			t.Errorf("%q is made legal but %s", c.raw, bad)
		}
		if (badGroup(c.raw) == "") != (c.raw == c.group) || (badStream(c.raw) == "") != (c.raw == c.stream) {
			t.Errorf("%q: %q and %q do not fit what is replaced", c.raw, badGroup(c.raw), badStream(c.raw))
		}
	}
}
