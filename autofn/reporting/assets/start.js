// What happens when the page opens.
document.body.append(probe);
if (matchMedia("(max-width: 60rem)").matches) document.querySelector(".toc details").open = false;
collect();
makeFilters();
watchTheme();
all("main .scroll > table").forEach(makeSortable);
follow();
addEventListener("hashchange", follow);
watchPlots();
