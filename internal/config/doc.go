package config

import (
	"reflect"
	"strings"
)

// ParamDoc describes one parameter or section of a plug-in, for the tables of
// docs/fluentd-compat.md, which a test of internal/app writes.
type ParamDoc struct {
	Key      string // as written in a file; for a section its name
	Section  string // path of the section that it stands in, "" for the plug-in's own: "security.user"
	Type     string // string, bool, integer, float, time, size, array, hash, regexp, enum, section
	Default  string // text as in a file; "" for none
	Required bool
	Secret   bool
	Repeated bool     // a section that may stand several times
	Enum     []string // what an enum may be
	Aliases  []string // other names
	Doc      string
}

// Doc lists the parameters that Decode would take into a struct, in the order of its
// fields, sections followed by what is in them. into is a struct or a pointer to one.
func Doc(into any) []ParamDoc {
	t := reflect.TypeOf(into)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return docFields(t, "")
}

func docFields(t reflect.Type, path string) []ParamDoc {
	var out []ParamDoc
	for i := range t.NumField() {
		f := t.Field(i)
		d := ParamDoc{
			Section: path, Default: f.Tag.Get("default"), Doc: f.Tag.Get("doc"),
			Required: f.Tag.Get("required") == "true", Secret: f.Tag.Get("secret") == "true",
			Enum: list(f.Tag.Get("enum")), Aliases: list(f.Tag.Get("alias")),
		}
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			out = append(out, docFields(f.Type, path)...)
		case f.Tag.Get("conf") != "":
			d.Key, d.Type = f.Tag.Get("conf"), typeName(f.Type, f.Tag)
			out = append(out, d)
		case f.Tag.Get("section") != "":
			d.Key, d.Type, d.Repeated = f.Tag.Get("section"), "section", f.Type.Kind() == reflect.Slice
			out = append(out, d)
			out = append(out, docSection(f.Type, strings.TrimPrefix(path+"."+d.Key, "."))...)
		}
	}
	return out
}

func docSection(t reflect.Type, path string) []ParamDoc {
	if t == rawSectionType {
		return nil
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t = t.Elem(); t == rawSectionType {
			return nil
		}
	}
	return docFields(t, path)
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "|")
}

// typeName gives Fluentd's name of a parameter type.
func typeName(t reflect.Type, tag reflect.StructTag) string {
	switch t {
	case durationType:
		return "time"
	case sizeType:
		return "size"
	case regexpType:
		return "regexp"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem(), tag)
	case reflect.Bool:
		return "bool"
	case reflect.Float64:
		return "float"
	case reflect.Slice:
		return "array"
	case reflect.Map:
		return "hash"
	case reflect.String:
		if tag.Get("enum") != "" {
			return "enum"
		}
		return "string"
	}
	return "integer"
}
