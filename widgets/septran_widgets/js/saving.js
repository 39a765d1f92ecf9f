// Copy to the clipboard and save as a file, without a network.
import {tag} from "./dom.js";

/** Copy a text; gives whether that worked. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = tag("textarea", { style: "position:fixed;opacity:0", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy"); // where a page is not https
    area.remove();
    return done;
  }
}

/** Offer a text as a file to be saved. */
export function saveText(name, text, kind = "text/plain") {
  const url = URL.createObjectURL(new Blob([text], { type: `${kind};charset=utf-8` }));
  const link = tag("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
