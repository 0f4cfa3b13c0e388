// Where the picture has what: a block per domain that holds nodes, a row of cells per node. All by arithmetic, so that
// a pointer's node and cell are found without an element for each.

const CELL_SIZES = [22, 18, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3];
const ROWS = 8; // nodes in a column of a block
const BLOCK_NODES = 32; // nodes of a block; a larger domain has several
const ROW_CELLS = 8; // cells of a node in one line; a node with more has several lines

// world: of readPlan. domain: what is shown, null for all. width: of the picture. height: what it should fit into.
function layOut(world, domain, width, height) {
  let found = null;
  for (const cell of CELL_SIZES) {
    found = layOutWith(world, domain, width, cell);
    if (found.height <= height && found.widest <= width) break;
  }
  return found;
}

function layOutWith(world, domain, width, cell) {
  const labels = cell >= 6, gap = cell >= 4 ? 1 : 0, space = Math.max(4, Math.round(cell * 0.8));
  const made = { cell, gap, labels, blocks: [], titles: [], height: 0, widest: 0 };
  const pen = { x: 0, y: 0, high: 0 };
  const breakRow = () => {
    if (pen.x) { pen.y += pen.high + space; pen.x = 0; pen.high = 0; }
  };
  const place = (owner, nodes, label) => {
    const block = measure(nodes, cell, owner, labels ? label : "");
    if (pen.x && pen.x + block.w > width) breakRow();
    block.x = pen.x;
    block.y = pen.y + (labels ? 14 : 0);
    pen.x += block.w + space;
    pen.high = Math.max(pen.high, block.h + (labels ? 14 : 0));
    made.widest = Math.max(made.widest, block.x + block.w);
    made.blocks.push(block);
  };
  const walk = (each, depth) => {
    if (each.children.length && each !== domain) {
      breakRow();
      made.titles.push({ domain: each, x: 0, y: pen.y + 12, depth });
      pen.y += 20;
    }
    each.children.forEach((child) => walk(child, depth + 1));
    for (let at = 0; at < each.own.length; at += BLOCK_NODES) {
      place(each, each.own.slice(at, at + BLOCK_NODES), at ? "" : each.name);
    }
    if (each.children.length) { breakRow(); pen.y += space; }
  };
  (domain ? [domain] : world.roots).forEach((root) => walk(root, 0));
  breakRow();
  made.height = Math.max(pen.y, cell);
  return made;
}

function measure(nodes, cell, domain, label) {
  const widest = Math.max(...nodes.map((node) => Math.min(ROW_CELLS, node.size)), 1);
  const lines = Math.max(...nodes.map((node) => Math.ceil(node.size / ROW_CELLS)), 1);
  const rows = Math.min(nodes.length, lines > 1 ? 4 : ROWS), columns = Math.ceil(nodes.length / rows);
  const columnGap = Math.max(2, Math.round(cell / 3));
  const w = columns * widest * cell + (columns - 1) * columnGap;
  return { domain, label, nodes, rows, columns, lines, pitch: widest * cell + columnGap, w, h: rows * lines * cell, x: 0, y: 0 };
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
  for (const title of layout.titles) if (y >= title.y - 14 && y <= title.y + 4 && x >= title.x) return title.domain;
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
