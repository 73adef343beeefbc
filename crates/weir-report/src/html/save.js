// Buttons that save a plot as PNG and its values as CSV, and a table as CSV. Nothing is sent: the
// page makes the files itself.
(() => {
  const plots = JSON.parse(document.getElementById("weir-plots").textContent);
  const link = (name, url) => {
    const a = Object.assign(document.createElement("a"), { href: url, download: name });
    document.body.append(a);
    a.click();
    a.remove();
  };
  const save = (name, kind, parts) => {
    const url = URL.createObjectURL(new Blob(parts, { type: kind }));
    link(name, url);
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  // Marks a cell as text if a spreadsheet would read it as a formula.
  const cell = (v) => {
    let t = String(v ?? "").trim().replace(/\s+/g, " ");
    if (/^[=+@\t]|^-(?![\d.])/.test(t)) t = "'" + t;
    return /[",\n]/.test(t) ? '"' + t.replaceAll('"', '""') + '"' : t;
  };
  const csv = (rows) => rows.map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";
  const file = (title) => (title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "plot");
  const values = (data) => {
    const rows = [["curve", "x (" + data.x + ")", "y (" + data.y + ")", "high or end"]];
    for (const c of data.curves) for (const p of c.points) rows.push([c.name, ...p]);
    return csv(rows);
  };
  // A copy of the picture with the colours that it has on this page.
  const png = (svg, name) => {
    const copy = svg.cloneNode(true), from = svg.querySelectorAll("*"), to = copy.querySelectorAll("*");
    const keep = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "font-family", "font-size", "font-weight", "display"];
    from.forEach((n, i) => { const s = getComputedStyle(n); for (const k of keep) to[i].style.setProperty(k, s.getPropertyValue(k)); });
    copy.querySelectorAll(".cursor,.select").forEach((n) => n.remove());
    const { width, height } = svg.viewBox.baseVal;
    copy.setAttribute("width", width); copy.setAttribute("height", height);
    const text = new XMLSerializer().serializeToString(copy), image = new Image(), scale = 2;
    image.onload = () => {
      const canvas = Object.assign(document.createElement("canvas"), { width: width * scale, height: height * scale });
      const pen = canvas.getContext("2d");
      pen.fillStyle = getComputedStyle(svg.closest("figure") ?? document.body).backgroundColor;
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      link(name, canvas.toDataURL("image/png"));
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  };
  const button = (parent, words, title, act) => {
    const b = Object.assign(document.createElement("button"), { type: "button", textContent: words, title });
    b.setAttribute("aria-label", title);
    b.addEventListener("click", act);
    parent.append(b);
  };
  const tools = () => Object.assign(document.createElement("span"), { className: "save" });
  for (const figure of document.querySelectorAll("figure")) {
    const caption = figure.querySelector("figcaption"), title = caption?.querySelector("h3")?.textContent;
    if (!title) continue;
    const shown = () => [...figure.querySelectorAll(".plot svg")].find((s) => s.getClientRects().length) ?? figure.querySelector(".plot svg");
    const data = () => plots[weirPlot(shown().closest(".plot"))];
    const bar = tools();
    button(bar, "PNG", "save " + title + " as PNG", () => png(shown(), file(title) + ".png"));
    if (figure.querySelector("[data-plot]")) button(bar, "CSV", "save the values of " + title + " as CSV", () => save(file(title) + ".csv", "text/csv", [values(data())]));
    caption.append(bar);
  }
  for (const table of document.querySelectorAll("table.numbers")) {
    const holder = table.closest(".scroll"), title = holder.getAttribute("aria-label") || "table", bar = tools();
    const rows = () => [...table.rows].map((r) => [...r.cells].map((c) => c.textContent));
    button(bar, "CSV", "save " + title + " as CSV", () => save(file(title) + ".csv", "text/csv", [csv(rows())]));
    const line = document.createElement("div");
    line.className = "tools";
    line.append(bar);
    holder.after(line);
  }
})();
