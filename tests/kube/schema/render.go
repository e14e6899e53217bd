package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"slices"
)

// render writes a line per kind and per field, so that a change of Kubernetes reads well as a diff.
func (c content) render(w io.Writer) {
	fmt.Fprintf(w, "{\n\"source\": %s,\n\"kinds\": [\n", line(source()))
	writeLines(w, c.kinds)
	fmt.Fprint(w, "],\n\"resources\": [\n")
	writeLines(w, c.resources)
	fmt.Fprint(w, "],\n\"types\": {\n")
	writeSorted(w, c.structs, func(s *structType) {
		fmt.Fprint(w, "[\n")
		writeLines(w, s.fields)
		fmt.Fprint(w, "]")
	})
	fmt.Fprint(w, "},\n\"schemas\": {\n")
	writeSorted(w, c.schemas, func(facts typeFacts) { fmt.Fprintf(w, "%s", line(facts)) })
	fmt.Fprint(w, "}\n}\n")
}

// renderDocs writes a line per description.
func (c content) renderDocs(w io.Writer) {
	fmt.Fprint(w, "{\n")
	writeSorted(w, c.docs, func(written docs) {
		fmt.Fprint(w, "{\n")
		for i, d := range written {
			fmt.Fprintf(w, "  %s: %s%s\n", line(d.Field), line(d.Text), commaUnlessLast(i, len(written)))
		}
		fmt.Fprint(w, "}")
	})
	fmt.Fprint(w, "}\n")
}

// writeSorted writes the entries of an object, each value by the given function.
func writeSorted[T any](w io.Writer, entries map[string]T, write func(T)) {
	for i, name := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(w, "%s: ", line(name))
		write(entries[name])
		fmt.Fprintln(w, commaUnlessLast(i, len(entries)))
	}
}

func writeLines[T any](w io.Writer, items []T) {
	for i, item := range items {
		fmt.Fprintf(w, "  %s%s\n", line(item), commaUnlessLast(i, len(items)))
	}
}

func commaUnlessLast(i, count int) string {
	if i == count-1 {
		return ""
	}
	return ","
}

// line is a value as JSON, with <, > and & as they are: the file is not for a web page.
func line(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		log.Fatal(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
