// Writes a Parquet file: columns of doubles, plain and uncompressed, in one row group. The format:
// https://parquet.apache.org/docs/file-format/ (metadata in Thrift's compact protocol).

export interface Column {
  name: string;
  values: number[];
}

/** The bytes of a Parquet file with these columns, which have equal lengths. */
export function parquet(columns: Column[]): Uint8Array {
  const rows = columns[0]?.values.length ?? 0;
  const out = new Bytes();
  out.ascii("PAR1");
  const chunks = columns.map((column) => {
    const offset = out.length;
    pageHeader(out, rows);
    for (const value of column.values) out.double(value);
    return { column, offset, size: out.length - offset };
  });
  const footer = out.length;
  const meta = new Thrift(out);
  meta.i32(1, 1);
  meta.list(2, STRUCT, columns.length + 1);
  meta.struct(() => {
    meta.text(4, "schema");
    meta.i32(5, columns.length);
  });
  for (const { name } of columns) {
    meta.struct(() => {
      meta.i32(1, DOUBLE);
      meta.i32(3, REQUIRED);
      meta.text(4, name);
    });
  }
  meta.i64(3, rows);
  meta.list(4, STRUCT, 1);
  meta.struct(() => {
    meta.list(1, STRUCT, chunks.length);
    for (const { column, offset, size } of chunks) {
      meta.struct(() => {
        meta.i64(2, offset);
        meta.field(3, STRUCT);
        meta.struct(() => {
          meta.i32(1, DOUBLE);
          meta.list(2, I32, 1);
          out.zigzag(PLAIN);
          meta.list(3, BINARY, 1);
          out.text(column.name);
          meta.i32(4, UNCOMPRESSED);
          meta.i64(5, rows);
          meta.i64(6, size);
          meta.i64(7, size);
          meta.i64(9, offset);
        });
      });
    }
    meta.i64(
      2,
      chunks.reduce((sum, chunk) => sum + chunk.size, 0),
    );
    meta.i64(3, rows);
  });
  meta.text(6, "weir");
  meta.stop();
  const length = out.length - footer;
  for (let i = 0; i < 4; i++) out.byte((length >>> (8 * i)) & 255);
  out.ascii("PAR1");
  return out.done();
}

function pageHeader(out: Bytes, rows: number): void {
  const header = new Thrift(out);
  header.i32(1, DATA_PAGE);
  header.i32(2, rows * 8);
  header.i32(3, rows * 8);
  header.field(5, STRUCT);
  header.struct(() => {
    header.i32(1, rows);
    header.i32(2, PLAIN);
    header.i32(3, RLE);
    header.i32(4, RLE);
  });
  header.stop();
}

class Bytes {
  private buffer = new Uint8Array(1 << 16);
  length = 0;

  private room(n: number): void {
    if (this.length + n <= this.buffer.length) return;
    const larger = new Uint8Array(Math.max(2 * this.buffer.length, this.length + n));
    larger.set(this.buffer);
    this.buffer = larger;
  }

  byte(value: number): void {
    this.room(1);
    this.buffer[this.length++] = value;
  }

  double(value: number): void {
    this.room(8);
    new DataView(this.buffer.buffer).setFloat64(this.length, value, true);
    this.length += 8;
  }

  ascii(text: string): void {
    for (const character of text) this.byte(character.charCodeAt(0));
  }

  varint(value: number): void {
    let rest = value;
    while (rest >= 128) {
      this.byte((rest % 128) | 128);
      rest = Math.floor(rest / 128);
    }
    this.byte(rest);
  }

  /** A non-negative number in the zigzag code. */
  zigzag(value: number): void {
    this.varint(2 * value);
  }

  text(text: string): void {
    const bytes = new TextEncoder().encode(text);
    this.varint(bytes.length);
    this.room(bytes.length);
    this.buffer.set(bytes, this.length);
    this.length += bytes.length;
  }

  done(): Uint8Array {
    return this.buffer.slice(0, this.length);
  }
}

class Thrift {
  private last = 0;

  constructor(private readonly out: Bytes) {}

  /** The head of a field: its type, and its number relative to the field before. */
  field(id: number, type: number): void {
    this.out.byte(((id - this.last) << 4) | type);
    this.last = id;
  }

  i32(id: number, value: number): void {
    this.field(id, I32);
    this.out.zigzag(value);
  }

  i64(id: number, value: number): void {
    this.field(id, I64);
    this.out.zigzag(value);
  }

  text(id: number, value: string): void {
    this.field(id, BINARY);
    this.out.text(value);
  }

  list(id: number, type: number, length: number): void {
    this.field(id, LIST);
    if (length < 15) this.out.byte((length << 4) | type);
    else {
      this.out.byte(0xf0 | type);
      this.out.varint(length);
    }
  }

  /** The fields of a structure and its end. */
  struct(fields: () => void): void {
    const outer = this.last;
    this.last = 0;
    fields();
    this.stop();
    this.last = outer;
  }

  stop(): void {
    this.out.byte(0);
  }
}

// Types of the compact protocol.
const I32 = 5;
const I64 = 6;
const BINARY = 8;
const LIST = 9;
const STRUCT = 12;
// Values of Parquet's enumerations.
const DOUBLE = 5;
const REQUIRED = 0;
const PLAIN = 0;
const RLE = 3;
const UNCOMPRESSED = 0;
const DATA_PAGE = 0;
