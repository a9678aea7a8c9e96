"""Waybills made by templates, plain and noisy, and the tables of all waybills in data/README.md.

A waybill is one line in which each field is marked: {name:王芳}{phone:12400001111}. Two generators
make them. `plain` writes what an address form exports: every field, official names, six layouts.
`noisy` writes what people type: other orders, missing fields and endings, typing errors, both
parties, and words that belong to no field. data/waybills/by_hand.tsv was written by hand.

Places are real, persons and streets are invented. Mobile numbers begin with 12, which no operator
of mainland China has, and the local part of a landline with 0 or 1, which none has either.
"""

from __future__ import annotations

import random
import re

from course_lib import runtime
from course_lib.chapters.ch21 import FIELDS, MARK, parse
from course_lib.data.splits import SPLITS
from course_lib.runtime import atomic_file
from tools.corpora.reporting import markdown_table

SEED = 42
SIZES = {"train": 500, "dev": 150}
SYNTHETIC, BY_HAND = "waybills/synthetic.tsv", "waybills/by_hand.tsv"

# Province: city: districts. All provinces of the mainland, a few of about 340 cities.
PLACES = """
河北省 石家庄市 长安区 桥西区 正定县 唐山市 路南区 丰润区 迁安市
山西省 太原市 小店区 迎泽区 清徐县 大同市 平城区 云冈区 阳高县
内蒙古自治区 呼和浩特市 新城区 赛罕区 土默特左旗 包头市 昆都仑区 青山区 固阳县
辽宁省 沈阳市 和平区 沈河区 新民市 大连市 中山区 甘井子区 庄河市
吉林省 长春市 南关区 朝阳区 农安县 吉林市 昌邑区 船营区 永吉县
黑龙江省 哈尔滨市 道里区 南岗区 五常市 大庆市 萨尔图区 让胡路区 肇州县
江苏省 南京市 鼓楼区 玄武区 江宁区 苏州市 姑苏区 吴中区 昆山市
浙江省 杭州市 西湖区 余杭区 桐庐县 宁波市 海曙区 鄞州区 慈溪市
安徽省 合肥市 蜀山区 包河区 肥西县 芜湖市 镜湖区 弋江区 无为市
福建省 福州市 鼓楼区 仓山区 闽侯县 厦门市 思明区 湖里区 集美区
江西省 南昌市 东湖区 青云谱区 南昌县 赣州市 章贡区 南康区 于都县
山东省 济南市 历下区 市中区 章丘区 青岛市 市南区 崂山区 胶州市
河南省 郑州市 金水区 二七区 新郑市 洛阳市 涧西区 洛龙区 栾川县
湖北省 武汉市 武昌区 洪山区 江夏区 宜昌市 西陵区 夷陵区 枝江市
湖南省 长沙市 岳麓区 芙蓉区 浏阳市 株洲市 天元区 荷塘区 醴陵市
广东省 广州市 天河区 越秀区 番禺区 深圳市 南山区 福田区 龙岗区
广西壮族自治区 南宁市 青秀区 西乡塘区 横州市 桂林市 秀峰区 七星区 阳朔县
海南省 海口市 龙华区 美兰区 琼山区 三亚市 吉阳区 天涯区 崖州区
四川省 成都市 武侯区 锦江区 双流区 绵阳市 涪城区 游仙区 江油市
贵州省 贵阳市 南明区 云岩区 清镇市 遵义市 红花岗区 汇川区 仁怀市
云南省 昆明市 五华区 盘龙区 安宁市 大理白族自治州 大理市 祥云县 剑川县
西藏自治区 拉萨市 城关区 堆龙德庆区 当雄县 日喀则市 桑珠孜区 江孜县 定日县
陕西省 西安市 雁塔区 碑林区 蓝田县 咸阳市 秦都区 渭城区 兴平市
甘肃省 兰州市 城关区 七里河区 榆中县 天水市 秦州区 麦积区 甘谷县
青海省 西宁市 城东区 城西区 湟中区 海东市 乐都区 平安区 互助县
宁夏回族自治区 银川市 兴庆区 金凤区 灵武市 吴忠市 利通区 红寺堡区 青铜峡市
新疆维吾尔自治区 乌鲁木齐市 天山区 沙依巴克区 米东区 喀什地区 喀什市 疏附县 莎车县
北京市 北京市 东城区 朝阳区 海淀区
天津市 天津市 和平区 南开区 西青区
上海市 上海市 黄浦区 徐汇区 浦东新区
重庆市 重庆市 渝中区 江北区 沙坪坝区
"""
SURNAMES = "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕"
GIVEN = "伟芳娜敏静丽强磊军洋勇艳杰娟涛明超秀霞平刚桂英华建文玲红辉鑫宇晨浩然欣怡雪梅子涵思远博"
DOUBLE = ("欧阳", "司马", "上官", "诸葛", "慕容")
ROAD = "文明建设解放人民中山和平胜利新华光明长江黄河朝晖东风学府滨河青年友谊振兴迎宾凤凰锦绣"
ENDINGS = ("路", "路", "路", "街", "大街", "大道", "巷", "东路", "西路", "南路", "北路")
ESTATES = ("花园", "小区", "家园", "公寓", "大厦", "雅苑", "新村", "名邸", "广场")
VILLAGES = ("李家", "上河", "石桥", "杨树", "大湾", "柳林", "东岭", "双井", "三合", "白沙")

PROVINCE_END = re.compile(r"(壮族|回族|维吾尔)?自治区$|省$|市$")
CITY_END = re.compile(r"(白族)?自治州$|地区$|市$")
DISTRICT_END = re.compile(r"(?<=..)[区县市]$")
FULL = str.maketrans("0123456789-+", "０１２３４５６７８９－＋")


def places() -> list[tuple[str, str, str]]:
    """All (province, city, district) of PLACES."""
    rows = []
    for line in PLACES.strip().splitlines():
        province, *words = line.split()
        for start in range(0, len(words), 4):
            rows += [(province, words[start], each) for each in words[start + 1 : start + 4]]
    return rows


def mark(field: str, text: str) -> str:
    return f"{{{field}:{text}}}"


class _Maker:
    """What both generators draw from; a seed gives the same waybills again."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.pick, self.places = self.random.choice, places()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def digits(self, count: int) -> str:
        return "".join(self.pick("0123456789") for _ in range(count))

    def name(self) -> str:
        surname = self.pick(DOUBLE) if self.chance(0.03) else self.pick(SURNAMES)
        return surname + "".join(self.pick(GIVEN) for _ in range(1 + self.chance(0.7)))

    def road(self) -> str:
        return self.pick(ROAD) + self.pick(ROAD) + self.pick(ENDINGS)

    def estate(self) -> str:
        return self.pick(ROAD) + self.pick(GIVEN) + self.pick(ESTATES)

    def street(self) -> str:
        text = f"{self.road()}{self.number(1, 399)}号"
        if self.chance(0.7):
            text += f"{self.estate()}{self.number(1, 30)}{self.pick(('栋', '号楼', '幢'))}"
            text += f"{self.number(1, 4)}单元" if self.chance(0.5) else ""
            text += f"{self.number(1, 32)}0{self.number(1, 6)}" + self.pick(("室", "室", ""))
        return text


class Plain(_Maker):
    """What a form exports."""

    def waybill(self) -> str:
        values = (*self.pick(self.places), self.street())
        address = "".join(map(mark, FIELDS[2:], values))
        layout = self.pick(
            (
                "{name}{phone}{address}",
                "{name}，{phone}，{address}",
                "{address} {name} {phone}",
                "收件人：{name} 电话：{phone} 地址：{address}",
                "{address}{name}{phone}",
                "{name} {address} {phone}",
            )
        )
        name, phone = mark("name", self.name()), mark("phone", "12" + self.digits(9))
        return layout.format(name=name, phone=phone, address=address)


class Noisy(_Maker):
    """What people type."""

    def name(self) -> str:
        full, kind = super().name(), self.random.random()
        if kind < 0.12:  # all that is known of the person
            suffix = self.pick(("哥", "姐", "女士", "先生", "师傅", "经理"))
            return self.pick((f"小{full[0]}", f"老{full[0]}", full[0] + suffix))
        title = self.pick(("先生", "女士", "收", "（收）", "老师", " 收", "同学"))
        return mark("name", full) + title if kind < 0.3 else full

    def phone(self) -> str:
        if self.chance(0.15):
            area = self.pick(("010", "021", "0571", "0755", "028", "0991"))
            number = self.pick("01") + self.digits(7)
            text = area + self.pick(("-", "", " ")) + number
            text += f"转{self.number(101, 999)}" if self.chance(0.2) else ""
        else:
            text = "12" + self.digits(9)
            gap = self.pick(("", "", "", "", " ", "-"))
            cut = self.pick(((3, 7), (3, 7), (4, 8)))
            text = gap.join((text[: cut[0]], text[cut[0] : cut[1]], text[cut[1] :]))
            text = self.pick(("",) * 8 + ("+86", "86-", "+86 ")) + text
        return text.translate(FULL) if self.chance(0.1) else text

    def street(self) -> str:
        kind = self.random.random()
        if kind < 0.4:
            text = super().street()
        elif kind < 0.55:
            text = (
                f"{self.estate()}{self.number(1, 30)}-{self.number(1, 4)}-{self.number(101, 3206)}"
            )
        elif kind < 0.7:
            text = self.pick(VILLAGES) + self.pick(("镇", "乡", "街道")) + self.pick(VILLAGES)
            text += self.pick(("村", "村委会旁", "社区", f"村{self.number(1, 12)}组", "村小学对面"))
        elif kind < 0.85:
            text = self.pick((self.estate(), self.road() + self.pick(("与", "和")) + self.road()))
            text += self.pick(
                ("交叉口", "东门", "菜鸟驿站", "快递柜", "B座", "对面水果店", "地铁站A口")
            )
        else:
            text = self.pick(("师范", "工业", "理工", "科技", "农业", "医科")) + self.pick(
                ("大学", "学院", "园区", "产业园", "中学", "附属医院")
            )
            text += f"{self.pick('东西南北')}{self.pick(('校区', '区', '门', '苑'))}"
            text += (
                f"{self.number(1, 20)}{self.pick(('号楼', '栋', '舍', '号厂房'))}{self.digits(3)}"
            )
        if self.chance(0.1):
            place = self.number(1, len(text) - 1)  # a character is lost, or typed twice
            text = text[:place] + text[place + self.pick((-1, 1)) :]
        return text.translate(FULL) if self.chance(0.06) else text

    def address(self) -> str:
        province, city, district = self.pick(self.places)
        if province == city and self.chance(0.8):
            city = ""
        short = self.chance(0.35)  # people leave the endings out together
        if short or self.chance(0.1):
            province = PROVINCE_END.sub("", province)
        if short and self.chance(0.8):
            city = CITY_END.sub("", city)
        if short and self.chance(0.5):
            district = DISTRICT_END.sub("", district)
        drop = self.random.random()
        if drop < 0.2 and city:
            province = ""
        elif drop < 0.27:
            district = ""
        elif drop < 0.32:
            province = city = ""
        elif drop < 0.36:
            province = city = district = ""
        gap = self.pick(("", "", "", "", " ", " ", "-", "/", "，"))
        values = (province, city, district, self.street())
        fields = [mark(*pair) for pair in zip(FIELDS[2:], values, strict=True) if pair[1]]
        if self.chance(0.06):  # the street first
            fields = [fields[-1], *fields[:-1]]
        return gap.join(fields)

    def party(self, role: str) -> str:
        name, phone = self.name(), self.phone()
        name = name if "{" in name else mark("name", name)
        parts = {"name": name, "phone": mark("phone", phone), "address": self.address()}
        if self.chance(0.08):
            del parts[self.pick(("name", "phone"))]
        order = self.pick(("name phone address", "address name phone", "name address phone"))
        order = self.pick((order, order, "phone name address", "address phone name")).split()
        keys = {
            "name": self.pick((f"{role}件人", f"{role}货人", "联系人", "姓名", role, f"{role}件")),
            "phone": self.pick(("电话", "手机", "联系电话", "手机号码", "Tel", "tel", "联系方式")),
            "address": self.pick(
                ("地址", f"{role}货地址", "详细地址", "送货地址", "收货地区", "寄到")
            ),
        }
        colon, gap = (
            self.pick(("：", ":", " ", "")),
            self.pick((" ", "，", ",", "；", "/", " | ", "\u3000", "")),
        )
        with_keys = self.chance(0.4)
        colon = colon or ":" if with_keys else ""
        return gap.join(
            (keys[key] + colon if with_keys else "") + parts[key] for key in order if key in parts
        )

    def waybill(self) -> str:
        text = self.party("收")
        kind = self.random.random()
        if kind < 0.12:
            roles = self.pick(
                (("寄", "收"), ("寄件方 ", "收件方 "), ("发件：", "收件："), ("从", "寄给"))
            )
            text = (
                roles[0] + self.party("寄") + self.pick((" ", "；", "，", " → ")) + roles[1] + text
            )
        elif kind < 0.3:
            before = (
                "麻烦寄到",
                "亲，地址改成",
                "你好，请发到",
                "老板 寄这里：",
                "帮我寄一下 ",
                "新地址：",
            )
            after = (
                "，谢谢",
                " 放门口就行",
                "，到了打电话",
                " 周末送",
                "，不要放驿站",
                " 急用",
                "哈",
            )
            text = self.pick(("", *before)) + text + self.pick(after)
        elif kind < 0.55:
            extra = (
                f"订单号{self.digits(12)}",
                f"单号：WB{self.digits(10)}",
                f"邮编{self.digits(6)}",
                f"共{self.number(1, 9)}件",
                f"重量{self.number(1, 20)}.{self.number(0, 9)}kg",
                f"代收货款{self.number(10, 900)}元",
                f"物品：{self.pick(('衣服', '书', '茶叶', '手机壳', '文件', '水果'))}",
                f"备注：{self.pick(('易碎', '勿压', '开箱验货', '下班后送', '放前台'))}",
                f"2{self.digits(3)}-0{self.number(1, 9)}-1{self.number(0, 9)}",
            )
            gap = self.pick((" ", "，", "；", " | "))
            extra = self.random.sample(extra, self.number(1, 2))
            text = gap.join((*extra, text) if self.chance(0.5) else (text, *extra))
        return text


def synthetic() -> list[tuple[str, str, str, str]]:
    """(id, kind, split, marked text) of all waybills that templates make, none of them twice."""
    rows, seen = [], set()
    for kind, maker in (("plain", Plain), ("noisy", Noisy)):
        for split, count in SIZES.items():
            made, number = maker(f"{SEED} {kind} {split}"), 0
            while number < count:
                text = made.waybill()
                if text not in seen and len(parse(text)[0]) <= 126:
                    seen.add(text)
                    number += 1
                    rows.append((f"{kind}-{split}-{number:03}", kind, split, text))
    return rows


def build() -> dict[str, int]:
    """Write the synthetic waybills; how many there are of each kind."""
    rows = synthetic()
    (runtime.data_dir() / "waybills").mkdir(exist_ok=True)
    with atomic_file(runtime.data_dir() / SYNTHETIC) as file:
        file.write(
            "".join("\t".join(row) + "\n" for row in [("id", "kind", "split", "text"), *rows])
        )
    return {kind: sum(row[1] == kind for row in rows) for kind in ("plain", "noisy")}


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a file of waybills, by the names of its first line."""
    header, *lines = (runtime.data_dir() / name).read_text(encoding="utf-8").splitlines()
    return [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]


def values(waybills: list[dict[str, str]], field: str) -> list[str]:
    """What is marked as a field in all of the waybills."""
    return [
        found[2] for row in waybills for found in MARK.finditer(row["text"]) if found[1] == field
    ]


def report() -> str:
    """The tables of data/README.md: what there is, and how much of it is known from training."""
    made, written = rows(SYNTHETIC), rows(BY_HAND)
    groups: dict[str, list[dict[str, str]]] = {}
    for kind, source in (("plain", made), ("noisy", made), ("by hand", written)):
        for row in sorted(source, key=lambda row: SPLITS.index(row["split"])):
            if row.get("kind", kind) == kind:
                groups.setdefault(f"{kind}, {row['split']}", []).append(row)
    sizes = []
    for title, group in groups.items():
        characters = sum(len(parse(row["text"])[0]) for row in group) / len(group)
        counts = [len(values(group, field)) for field in FIELDS]
        sizes.append([title, len(group), f"{characters:.0f}", *counts])
    known = []
    for field in ("province", "city", "district", "name"):
        train = [set(values(groups[f"{kind}, train"], field)) for kind in ("plain", "noisy")]
        line = [field]
        for title in ("plain, dev", "noisy, dev", "by hand, test"):
            own = values(groups[title], field)
            line += [f"{sum(each in train[title == 'noisy, dev'] for each in own) / len(own):.0%}"]
        known.append(line)
    tables = [
        markdown_table(["waybills", "number", "mean characters", *FIELDS], sizes),
        markdown_table(
            ["seen in training", "plain dev", "noisy dev", "test by hand (plain)"], known
        ),
    ]
    return "\n\n".join(tables)
