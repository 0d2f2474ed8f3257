package recent

// pageCells is how many cells are asked of the runtime at a time: few enough that it takes
// no longer than adding a request.
const pageCells = 512

// arena is the cells. Its memory grows up to a bound and is then used again.
type arena struct {
	pages [][]cell
	most  int // pages
	free  ref // the first of those that are free, but not the fresh ones
	fresh ref // the first of those of the last page that were never used
}

// newArena returns an arena of at most so many cells, in whole pages.
func newArena(cells int) arena {
	most := max(cells/pageCells, 2)
	return arena{pages: make([][]cell, 0, most), most: most, fresh: 1}
}

// at returns a cell.
func (a *arena) at(r ref) *cell { return &a.pages[r/pageCells][r%pageCells] }

// take returns a cell that is free, with nothing in it; 0 when there is none.
func (a *arena) take() ref {
	if r := a.free; r != 0 {
		c := a.at(r)
		a.free = c.more
		*c = cell{}
		return r
	}
	if int(a.fresh) >= len(a.pages)*pageCells {
		if len(a.pages) == a.most {
			return 0
		}
		a.pages = append(a.pages, make([]cell, pageCells))
	}
	a.fresh++
	return a.fresh - 1
}

// give makes a chain of cells free, from first to last by more.
func (a *arena) give(first, last ref) {
	a.at(last).more = a.free
	a.free = first
}

// cells is how many there may be.
func (a *arena) cells() int { return a.most*pageCells - 1 }

// bytes is what the cells take of memory now.
func (a *arena) bytes() int { return len(a.pages)*pageCells*cellBytes + cap(a.pages)*pageHeader }

// pageHeader is what a page takes in the list of pages.
const pageHeader = 24
