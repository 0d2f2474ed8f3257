package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
)

// JSON writes the rows as one array.
func (r *Report) JSON(w io.Writer) error {
	data, err := json.MarshalIndent(r.rows(), "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

// CSV writes the rows below the names of their columns, which are those of the JSON.
func (r *Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	for i, row := range r.rows() {
		names, values, err := cells(row)
		if err != nil {
			return err
		}
		if i == 0 {
			_ = out.Write(names) // Error tells
		}
		_ = out.Write(values)
	}
	out.Flush()
	return out.Error()
}

func (r *Report) rows() []Row {
	rows := make([]Row, 0, len(r.Runs))
	for _, run := range r.Runs {
		rows = append(rows, run.Row)
	}
	return rows
}

// cells takes a row apart as JSON names and shows it, so that no name is said twice.
func cells(row Row) (names, values []string, err error) {
	data, err := json.Marshal(row)
	if err != nil {
		return nil, nil, err
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	tokens.UseNumber()
	for {
		token, err := tokens.Token()
		if err == io.EOF {
			return names, values, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if _, brace := token.(json.Delim); brace {
			continue
		}
		text := ""
		if token != nil { // an undefined figure is an empty cell
			text = fmt.Sprint(token)
		}
		if len(names) > len(values) {
			values = append(values, text)
		} else {
			names = append(names, text)
		}
	}
}
