module github.com/rayhistory/historyserver/test

go 1.26.0

require github.com/rayhistory/historyserver v0.0.0

replace github.com/rayhistory/historyserver => ../
