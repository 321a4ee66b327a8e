module github.com/holdfast-go/holdfast/model

go 1.26.0
