// Starts the one view of an exported page: `page_view` is the view's module.
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const theme = document.getElementById("theme");
const choose = (dark) => {
  root.dataset.theme = dark ? "dark" : "light";
  theme.textContent = dark ? "light" : "dark";
};
theme.addEventListener("click", () => choose(root.dataset.theme !== "dark"));
system.addEventListener("change", () => choose(system.matches));
choose(system.matches);
const model = {
  get: (name) => (name === "data" ? data : ""), set() {}, save_changes() {}, on() {}, off() {}, send() {},
};
page_view.render({ model, el: document.getElementById("view") });
