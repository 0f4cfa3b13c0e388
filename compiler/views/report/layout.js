// Where the picture has what: a block per domain that holds nodes, a row of cells per node. All by arithmetic, so that
// a pointer's node and cell are found without an element for each.

const CELL_SIZES = [22, 18, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3];
const ROWS = 8; // nodes in a column of a block
const BLOCK_NODES = 32; // nodes of a block; a larger domain has several
const ROW_CELLS = 8; // cells of a node in one line; a node with more has several lines

// world: of readPlan. domain: what is shown, null for all. width: of the picture. height: what it should fit into.
function layOut(world, domain, width, height) {
  let from = 0, to = CELL_SIZES.length - 1, found = null; // the largest cells that fit are between from and to
  while (from < to) {
    const middle = (from + to) >> 1, tried = layOutWith(world, domain, width, CELL_SIZES[middle]);
    if (tried.height <= height && tried.widest <= width) [to, found] = [middle, tried];
    else from = middle + 1;
  }
  return found && found.cell === CELL_SIZES[from] ? found : layOutWith(world, domain, width, CELL_SIZES[from]);
}

// Domains that hold domains of nodes are groups with a title, side by side as far as there is room; a domain above those
// is a line with their groups below.
function layOutWith(world, domain, width, cell) {
  const labels = cell >= 6, space = Math.max(4, Math.round(cell * 0.8));
  const made = { cell, gap: cell >= 4 ? 1 : 0, labels, blocks: [], titles: [], height: 0, widest: 0 };
  const rows = new Rows(width, space * 2, space * 1.5);
  const addGroup = (owner, parts, isTitled) => {
    const blocks = parts.flatMap((each) => blocksOf(each, cell, labels));
    const inner = new Rows(labels ? width : Math.min(width, blocks.reduce((most, block) => Math.max(most, block.w), 0) * 8 + 7 * space), space, space);
    for (const block of blocks) Object.assign(block, inner.place(block.w, block.h + (labels ? 14 : 0)));
    const [own, high] = inner.end(), top = isTitled ? 18 : 0;
    const wide = isTitled ? Math.max(own, Math.min(width, owner.name.length * 8)) : own;
    if (rows.isTitled !== isTitled) rows.newRow();
    rows.isTitled = isTitled;
    const at = rows.place(wide, high + top);
    for (const block of blocks) { block.x += at.x; block.y += at.y + top + (labels ? 14 : 0); }
    made.blocks.push(...blocks);
    if (isTitled) made.titles.push({ domain: owner, x: at.x, y: at.y + 12, w: wide });
  };
  const walk = (each) => {
    const isShown = each === domain, isHigh = each.children.some((child) => child.children.length);
    if (isHigh || (isShown && each.children.length)) {
      if (!isShown) {
        rows.newRow();
        const at = rows.place(width, 20);
        made.titles.push({ domain: each, x: 0, y: at.y + 14, w: width });
        rows.newRow();
      }
      each.children.forEach(walk);
      if (each.own.length) addGroup(each, [each], false);
      rows.newRow();
    } else addGroup(each, each.own.length ? [...each.children, each] : each.children, each.children.length > 0);
  };
  (domain ? [domain] : world.roots).forEach(walk);
  [made.widest, made.height] = rows.end();
  return made;
}

// Rectangles from left to right, and below where a row is full.
class Rows {
  constructor(width, across, down) {
    Object.assign(this, { width, across, down, x: 0, y: 0, high: 0, widest: 0 });
  }

  place(wide, high) {
    if (this.x && this.x + wide > this.width) this.newRow();
    const at = { x: Math.round(this.x), y: Math.round(this.y) };
    this.x += wide + this.across;
    this.high = Math.max(this.high, high);
    this.widest = Math.max(this.widest, at.x + wide);
    return at;
  }

  newRow() {
    if (!this.x) return;
    this.y += this.high + this.down;
    this.x = this.high = 0;
  }

  end() {
    this.newRow();
    return [this.widest, Math.max(1, this.y - this.down)];
  }
}

const blocksOf = (domain, cell, labels) => domain.parts.map((part, at) => measure(part, cell, domain, labels && !at ? labelOf(domain) : ""));
const labelOf = (domain) => (domain.queue ? `${domain.name} (queue ${domain.queue})` : domain.name);

// The nodes of each block of a domain, and how many cells the largest of them has across and down.
function divide(domain) {
  const parts = [];
  for (let at = 0; at < domain.own.length; at += BLOCK_NODES) {
    const nodes = domain.own.slice(at, at + BLOCK_NODES), largest = nodes.reduce((most, node) => Math.max(most, node.size), 1);
    parts.push({ nodes, across: Math.min(ROW_CELLS, largest), lines: Math.ceil(largest / ROW_CELLS) });
  }
  return parts;
}

function measure({ nodes, across, lines }, cell, domain, label) {
  const rows = Math.min(nodes.length, lines > 1 ? 4 : ROWS), columns = Math.ceil(nodes.length / rows);
  const columnGap = Math.max(2, Math.round(cell / 3));
  const w = columns * across * cell + (columns - 1) * columnGap;
  return { domain, label, nodes, rows, columns, lines, pitch: across * cell + columnGap, w, h: rows * lines * cell, x: 0, y: 0 };
}

const cellX = (block, layout, index, at) => block.x + Math.floor(index / block.rows) * block.pitch + (at % ROW_CELLS) * layout.cell;
const cellY = (block, layout, index, at) => block.y + ((index % block.rows) * block.lines + Math.floor(at / ROW_CELLS)) * layout.cell;

// The node and the cell at a point: {node, at, block}; null where there is none.
function hit(layout, x, y) {
  for (const block of layout.blocks) {
    if (x < block.x || y < block.y || x >= block.x + block.w || y >= block.y + block.h) continue;
    const column = Math.floor((x - block.x) / block.pitch), line = Math.floor((y - block.y) / layout.cell);
    const index = column * block.rows + Math.floor(line / block.lines);
    const across = Math.floor((x - block.x - column * block.pitch) / layout.cell);
    const at = (line % block.lines) * ROW_CELLS + across;
    const node = block.nodes[index];
    return node && across < ROW_CELLS && at < node.size ? { node, at, block } : null;
  }
  return null;
}

function hitTitle(layout, x, y) {
  for (const title of layout.titles) {
    if (y >= title.y - 14 && y <= title.y + 4 && x >= title.x && x <= title.x + title.w) return title.domain;
  }
  if (layout.labels) for (const block of layout.blocks) {
    if (y >= block.y - 14 && y < block.y && x >= block.x && x < block.x + block.w) return block.domain;
  }
  return null;
}

// The rectangle of a node.
function nodeBox(layout, node) {
  for (const block of layout.blocks) {
    if (block.domain !== node.domain) continue;
    const index = block.nodes.indexOf(node);
    if (index < 0) continue;
    const across = Math.min(ROW_CELLS, node.size) * layout.cell - layout.gap;
    return { x: cellX(block, layout, index, 0), y: cellY(block, layout, index, 0), w: across, h: block.lines * layout.cell - layout.gap };
  }
  return null;
}
