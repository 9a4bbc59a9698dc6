// The page works without this script. It writes times in the browser's zone, selects groups of changes, and reads the
// page again when the database changes, and every 30 seconds.
"use strict";

// Times: the text in the zone of the browser; the tooltip has UTC.
const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function writeTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]:not([data-age])")) {
        const at = new Date(time.dateTime);
        if (!Number.isNaN(at.getTime())) time.textContent = format.format(at);
    }
}

// Groups of changes.
function selectGroups(root) {
    for (const box of root.querySelectorAll("[data-select-all]")) {
        box.addEventListener("change", () => {
            for (const one of box.closest(".group").querySelectorAll("input[name=key]")) one.checked = box.checked;
        });
    }
}

// Live parts: the page is read again, and a part whose HTML differs replaces the old one.
const written = new Map();
let mark = document.body.dataset.mark;
let reading = false;
let readAgain = false;

function liveParts(root) {
    return root.querySelectorAll("[data-live][id]");
}

// A part in which a person types or selects is left as it is.
function isInUse(part) {
    const active = document.activeElement;
    const types = active && part.contains(active) && /^(INPUT|SELECT|TEXTAREA)$/.test(active.tagName);
    return types || part.querySelector("input:checked") !== null;
}

function focusable(part) {
    return [...part.querySelectorAll("a[href], button, summary, [tabindex]")];
}

// The name by which an element is found again in the new part.
function nameOf(element) {
    return element.getAttribute("href") || element.getAttribute("aria-label") || element.textContent;
}

// Replaces the content of a part. Open details, scroll positions and the focus stay.
function replacePart(old, part) {
    const open = [...old.querySelectorAll("details")].map((one) => one.open);
    const scrolled = [...old.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    const focused = focusable(old).find((one) => one === document.activeElement);
    old.replaceChildren(...document.importNode(part, true).childNodes);
    old.querySelectorAll("details").forEach((one, index) => { one.open = open[index] || false; });
    old.querySelectorAll(".scroll").forEach((one, index) => { one.scrollLeft = scrolled[index] || 0; });
    if (focused) focusable(old).find((one) => nameOf(one) === nameOf(focused))?.focus({ preventScroll: true });
    writeTimes(old);
    selectGroups(old);
}

function replaceParts(fresh) {
    for (const part of liveParts(fresh)) {
        const old = document.getElementById(part.id);
        const html = part.innerHTML;
        if (!old || written.get(part.id) === html || isInUse(old)) continue;
        written.set(part.id, html);
        replacePart(old, part);
    }
}

// A click ends on the element on which it began, so nothing is replaced while a button of the mouse is down.
let pressed = false;
// A page that was read meanwhile.
let late = null;

addEventListener("pointerdown", () => { pressed = true; }, true);
for (const end of ["pointerup", "pointercancel", "dragend"]) {
    addEventListener(end, () => {
        // The click comes after this event.
        setTimeout(() => {
            pressed = false;
            if (late) replaceParts(late);
            late = null;
        });
    }, true);
}

async function readPage() {
    if (reading) {
        readAgain = true;
        return;
    }
    reading = true;
    try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html", "Tallyd-Refresh": "1" } });
        if (answer.ok) {
            const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
            mark = fresh.body.dataset.mark;
            if (pressed) late = fresh;
            else replaceParts(fresh);
        }
    } catch {
        // The next event reads it.
    }
    reading = false;
    if (readAgain) {
        readAgain = false;
        readPage();
    }
}

let events = null;

function listen() {
    if (events || document.hidden || mark === undefined) return;
    events = new EventSource("/events");
    events.onmessage = (event) => {
        if (event.data !== mark) readPage();
    };
    events.onerror = () => {
        if (events && events.readyState === EventSource.CLOSED) events = null;
    };
}

// Data also grow old, and a daemon may end, without a commit.
setInterval(() => {
    if (document.hidden) return;
    readPage();
    listen();
}, 30000);

// A page that the browser kept has the numbers of its time, and forms that were sent.
addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
});

// A hidden tab costs nothing.
document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
        if (events) events.close();
        events = null;
    } else {
        listen();
    }
});

document.documentElement.classList.add("has-script");
for (const part of liveParts(document)) written.set(part.id, part.innerHTML);
writeTimes(document);
selectGroups(document);
listen();
