"""What other programs write, built to their formats: pages with any records."""

SQUARE = [[2, 3], [8, 3], [8, 9], [2, 9]]


def coco(*records, size=(7, 9), **more):
    image = {"id": 1, "file_name": "a.png", "height": size[0], "width": size[1]}
    return {
        "images": [image],
        "categories": [{"id": 3, "name": "dog"}],
        "annotations": [{"image_id": 1, "category_id": 3, **record} for record in records],
    } | more


def feature(coordinates=(*SQUARE, SQUARE[0]), kind="Polygon", **properties):
    coordinates = [coordinates] if kind == "Polygon" else coordinates
    geometry = {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "geometry": geometry, "properties": properties}


def geojson(*features, **more):
    return {"type": "FeatureCollection", "features": list(features), **more}


def shape(points=SQUARE, kind="polygon", label="dog", **more):
    about = {"label": label, "points": points, "group_id": None, "shape_type": kind, "flags": {}}
    return about | more


def labelme(*shapes, **more):
    about = {"version": "5.5.0", "flags": {}, "imagePath": "..\\a.png", "imageData": None}
    return about | {"shapes": list(shapes), "imageHeight": 20, "imageWidth": 30} | more


def box(name, *edges):
    sides = zip(("xmin", "ymin", "xmax", "ymax"), edges, strict=True)
    texts = "".join(f"<{side}>{edge}</{side}>" for side, edge in sides)
    return f"<object><name>{name}</name><bndbox>{texts}</bndbox></object>"


def voc(*objects, size="<size><width>30</width><height>20</height><depth>3</depth></size>"):
    return f"<annotation><filename>a.png</filename>{size}{''.join(objects)}</annotation>"


META = """<meta><task><labels>
<label><name>tree</name><color>#AA00BB</color><attributes></attributes></label>
<label><name>dog</name><color>#00ff00</color><attributes></attributes></label>
<label><name>cat</name><color>#00ff00</color><type>skeleton</type></label>
<label><name>paw</name><color>#00ff00</color><parent>dog</parent></label>
</labels></task></meta>"""
POLYGON = '<polygon label="dog" points="2.00,3.00;8.00,3.00;8.00,9.00;2.00,9.00">{}</polygon>'


def cvat(*shapes, size='width="30" height="20"'):
    images = f'<image id="0" name="a.png" {size}>{"".join(shapes)}</image>'
    return f'<?xml version="1.0"?><annotations><version>1.1</version>{META}{images}</annotations>'
